"""A file of arrays is read in a process: whatever it does there costs no more than its own rows."""

import functools
import os
import re
import subprocess
import sys

import h5py
import numpy as np
import psutil
import pytest

from image_pipeline.components import progress
from image_pipeline.components.arrays import array_process
from image_pipeline.components.arrays.array_process import ArrayProcess
from image_pipeline.components.arrays.array_tables import read_array_rows
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from tests.array_files import IMAGES, write_files, write_hdf5
from tests.arrays.failing_worker import ROWS
from tests.arrays.test_array_tables import list_refs, open_table

pytestmark = pytest.mark.e2e

_FAULTS = {
    1: "the reader of 'a' was killed by signal 11$",
    2: r"'/x' cannot be read \(it takes far more memory than its values\)",
    4: "the reader of 'a' was killed by signal 24, for it took more processor time than it may",
    5: "the reader of 'a' ended with exit code 3",
    7: r"'/x' cannot be read \(KeyError: 'key'\)",
    8: "'x' in 'a' has other rows than it had",
    9: r"'/x' cannot be read \(AttributeError: Can't pickle",
}


@pytest.fixture(autouse=True)
def failing(monkeypatch):
    """The worker that can fail in place of the own one, with little patience."""
    monkeypatch.setattr(array_process, "_MAIN", "tests.arrays.failing_worker:main")
    monkeypatch.setattr(array_process, "_ANSWER_S", 60.0)
    start = array_process._start
    yield
    start.cache_clear()


def _open(path="a"):
    return {array.name: array for array in ArrayProcess("failing", path).open()}


def _number(arrays):
    """That of the process which reads them."""
    return int(arrays["process"].read(0, 1)[0, 0])


def test_what_is_damaged_costs_its_own_rows():
    array = _open()["x"]
    for row in (0, *_FAULTS, 10):
        if row not in _FAULTS:
            assert np.array_equal(array.read(row, row + 1), ROWS[row : row + 1])
            continue
        with pytest.raises(BadImage, match=_FAULTS[row]) as raised:
            array.read(row, row + 1)
        assert raised.value.reason == CORRUPT
    assert np.array_equal(array.read(10, 50), ROWS[10:])


def test_a_process_that_the_system_ends_is_no_damage():
    said = (
        "The reader of 'a' was killed by signal 9, as the system does where memory runs out; free"
    )
    with pytest.raises(UserError, match=said):
        _open()["x"].read(6, 7)


@pytest.mark.parametrize("fault", [1, 4])
def test_a_file_that_cannot_be_listed_is_refused(fault):
    with pytest.raises(ValueError, match=_FAULTS[fault].replace("'a'", f"'{fault}'")):
        _open(str(fault))


def test_a_file_that_takes_too_long_in_all_is_given_up(monkeypatch):
    array = _open()["x"]
    array.read(0, 1)
    monkeypatch.setattr(array_process, "_ANSWER_S", 2.0)
    monkeypatch.setattr(array_process, "_MOST_LOST_S", 1.5)
    with pytest.raises(BadImage, match="the reader of 'a' did not answer within 2 s"):
        array.read(3, 4)
    monkeypatch.setattr(array_process, "_start", None)  # Nothing more is asked.
    for row in (0, 1, 3):
        with pytest.raises(BadImage, match=r"no more of 'a' is read: .* or hung 1 times, \d s in"):
            array.read(row, row + 1)


def test_an_answer_that_nobody_waited_for_is_not_the_next_one(monkeypatch):
    array = _open()["x"]
    receive = array_process.Child.receive

    def interrupt(child, until_s):
        monkeypatch.setattr(array_process.Child, "receive", receive)
        raise KeyboardInterrupt

    monkeypatch.setattr(array_process.Child, "receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        array.read(10, 20)
    assert np.array_equal(array.read(20, 30), ROWS[20:30])


def test_the_file_that_is_waited_for_is_named(monkeypatch):
    receive, seen = array_process.Child.receive, []

    def note(child, until_s):
        seen.append(progress.look_slow(0)[0])
        return receive(child, until_s)

    monkeypatch.setattr(array_process.Child, "receive", note)
    with progress.named("reading a/00000010"):
        _open()["x"].read(10, 11)
        assert progress.look_slow(0)[0] == "reading a/00000010"
    assert seen == ["reading a", "reading a"]
    assert progress.look_slow(0) is None


def test_few_processes_are_kept_and_those_that_are_forgotten_end(monkeypatch):
    start = functools.lru_cache(2)(array_process._start.__wrapped__)
    monkeypatch.setattr(array_process, "_start", start)
    files = [_open(f"file {number}") for number in range(3)]
    own = set(map(psutil.Process, map(_number, files)))
    assert len(own) == 3
    assert len(own & set(psutil.Process().children())) == 2
    assert np.array_equal(files[0]["x"].read(10, 20), ROWS[10:20])  # It is started again.
    start.cache_clear()
    assert not own & set(psutil.Process().children())


def test_an_error_keeps_no_process():
    arrays = _open()
    process = psutil.Process(_number(arrays))
    with pytest.raises(BadImage, match=_FAULTS[7]) as raised:
        arrays["x"].read(7, 8)
    array_process._start.cache_clear()
    assert raised.value.reason == CORRUPT  # It is still held.
    assert process not in psutil.Process().children()


def test_a_fork_has_a_process_of_its_own():
    arrays = _open()
    number = _number(arrays)
    ours, its = os.pipe()
    if not (fork := os.fork()):
        try:
            is_same = np.array_equal(arrays["x"].read(20, 30), ROWS[20:30])
            os.write(its, f"{is_same} {_number(arrays) != number}".encode())
        finally:
            array_process._start.cache_clear()
            os._exit(0)
    os.waitpid(fork, 0)
    assert os.read(ours, 99) == b"True True"
    assert _number(arrays) == number
    os.close(ours)
    os.close(its)


_PARENT = """
import os, sys, time
from image_pipeline.components.arrays import array_process

array_process._MAIN = "tests.arrays.failing_worker:main"
arrays = {array.name: array for array in array_process.ArrayProcess("failing", "a").open()}
print(int(arrays["process"].read(0, 1)[0, 0]), flush=True)
if os.fork() == 0:  # It holds copies of all descriptors.
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""


def test_it_ends_when_its_parent_is_killed():
    command = [sys.executable, "-c", _PARENT]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    reader, fork = (psutil.Process(int(parent.stdout.readline())) for _ in range(2))
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs([reader], timeout=120)
    fork.kill()
    parent.stdout.close()
    assert alive == []


def _set_size(path, number: int, size: int) -> None:
    """Changes the size that HDF5's first collection of texts gives for one of them."""
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    while int.from_bytes(data[at : at + 2], "little") != number:
        at += 16 + -(-int.from_bytes(data[at + 8 : at + 16], "little") // 8) * 8
    data[at + 8 : at + 16] = size.to_bytes(8, "little")
    path.write_bytes(data)


# Of the last of these sizes HDF5 makes an endless loop: the next text begins where this one does.
@pytest.mark.parametrize("size", [4, 2**62, 2**64 - 1, 2**64 - 16])
def test_damaged_texts_of_hdf5_cost_their_own_rows_and_end(tmp_path, monkeypatch, size):
    monkeypatch.setattr(array_process, "_MOST_LOST_S", 4.0)
    labels = [f"label {row}" for row in range(len(IMAGES))]
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES, "y": labels})
    _set_size(path, 20, size)
    rows = list(read_array_rows(str(path), {}))
    bad = [row for row in rows if row.problem]
    assert len(bad) == (1 if size == 4 else 50)
    good = [row for row in rows if not row.problem]
    assert all(row.cells["y"] == labels[row.line] for row in good)
    said = "cannot be read .Can't|took more processor time|no more of .* is read: its reader"
    assert all(re.search(said, row.problem) for row in bad)


def test_a_question_is_for_many_rows(tmp_path, monkeypatch):
    asked, send = [], array_process.Child.send

    def note(child, question):
        asked.append(question)
        send(child, question)

    monkeypatch.setattr(array_process.Child, "send", note)
    files = [b"\xff\xd8\xff" + bytes(row) for row in range(6)]
    rows = [pixels.tobytes() for pixels in IMAGES]
    pixels = write_hdf5(tmp_path / "a.h5", {"x": IMAGES}, chunks=(7, 6, 5, 3))
    for path, expected in (pixels, rows), (write_files(tmp_path / "b.h5", "x", files), files):
        table = open_table(path)
        refs = list(table.list())
        asked.clear()
        assert [table.read(ref, 10**6)[-len(rows[0]) :] for ref in refs] == expected
        questions = [(0, 50)] if expected is rows else [(0, 4), (4, 6)]
        assert [question[1:3] for question in asked] == questions


def test_a_chunk_that_is_damaged_does_not_cost_what_is_asked_with_it(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES}, chunks=(7, 6, 5, 3), compression="gzip")
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info(2)
    damaged = bytearray(path.read_bytes())
    damaged[chunk.byte_offset + 4] ^= 255
    path.write_bytes(damaged)
    table = open_table(path)
    for row, ref in enumerate(list_refs(path)):
        if row in range(14, 21):
            with pytest.raises(BadImage, match=r"'/x' cannot be read .*filter returned"):
                table.read(ref, 10**6)
        else:
            assert table.read(ref, 10**6).endswith(IMAGES[row].tobytes())
