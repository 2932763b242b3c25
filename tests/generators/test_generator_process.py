"""Generators in processes: one order, bounded buffers, and every kind of end is noticed."""

import contextlib
import functools
import gc
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import psutil
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.generators import generator_process
from image_pipeline.components.generators.generator_process import run_generators
from image_pipeline.components.generators.generator_worker import (
    END,
    FAILED,
    ITEM,
    WRONG,
    WrongItem,
)

pytestmark = pytest.mark.e2e


def _give(make):
    return make


def _same(item):
    if isinstance(item, str) and item == "odd":
        raise WrongItem("it is odd")
    return item


def _run(make, shards, *, of=None, timeout_s=300.0, **options):
    load = functools.partial(_give, make)
    shards = range(shards) if isinstance(shards, int) else shards
    return run_generators("it", load, shards, of or len(shards), _same, timeout_s, **options)


_OTHERS = set()  # processes that other tests of this process have left, such as a pool's


@pytest.fixture(autouse=True)
def _others():
    _OTHERS.update(psutil.Process().children(recursive=True))


def _children():
    return [each for each in psutil.Process().children(recursive=True) if each not in _OTHERS]


def _count(shard, shards):
    """Shard 0 yields 3 items, shard 1 yields 2, shard 2 none, shard 3 yields 3, …"""
    for item in range((3, 2, 0)[shard % 3]):
        yield {"at": (shard, item), "of": shards, "array": np.full((item + 1, 2), shard, np.uint8)}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_items_come_in_turn_whatever_the_number_of_processes(workers):
    sent = list(_run(_count, 5, workers=workers))
    assert [(each.kind, each.shard, each.item) for each in sent] == [
        *((ITEM, 0, 0), (ITEM, 1, 0), (END, 2, 0), (ITEM, 3, 0), (ITEM, 4, 0)),
        *((ITEM, 0, 1), (ITEM, 1, 1), (ITEM, 3, 1), (ITEM, 4, 1)),
        *((ITEM, 0, 2), (END, 1, 2), (ITEM, 3, 2), (END, 4, 2)),
        *((END, 0, 3), (END, 3, 3)),
    ]
    for each in sent:
        if each.kind == ITEM:
            assert each.body["at"] == (each.shard, each.item) and each.body["of"] == 5
            expected = np.full((each.item + 1, 2), each.shard, np.uint8)
            np.testing.assert_array_equal(each.body["array"], expected)
            each.body["array"][:] = 0  # It is the caller's own.
    assert _children() == []


def test_only_the_named_shards_are_run_and_only_their_first_items():
    sent = list(_run(_count, [3, 1], of=7, most_items=1))
    assert [(each.kind, each.shard, each.item) for each in sent] == [
        *((ITEM, 3, 0), (ITEM, 1, 0)),
        *((END, 3, 1), (END, 1, 1)),
    ]
    assert sent[0].body["of"] == 7


def test_items_larger_than_the_buffer_arrive_whole(monkeypatch):
    monkeypatch.setattr(generator_process, "_BUFFER_BYTES", 1000)
    lengths = (0, 1, 999, 1000, 1001, 5000, 100_000, 1_000_000)

    def make(shard, shards):
        for size in lengths:
            yield [np.arange(size, dtype=np.int64), np.arange(3, dtype=np.uint8), b"x" * size]

    sent = [each.body for each in _run(make, 2) if each.kind == ITEM]
    sizes = np.repeat(lengths, 2)
    for size, body in zip(sizes, sent, strict=True):
        assert body[0].tolist() == list(range(size)) and body[1].tolist() == [0, 1, 2]
        assert body[2] == b"x" * size


def note_one(path):
    """Makes a file longer by a byte: whoever looks at its size meanwhile finds a whole number."""
    with path.open("ab") as file:
        file.write(b".")


def test_a_generator_does_not_run_ahead_of_who_reads(tmp_path):
    def make(shard, shards):
        while True:
            note_one(tmp_path / f"{shard}")
            yield np.zeros(50_000, np.uint8)

    with contextlib.closing(_run(make, 2)) as sent:
        for _ in range(10):
            next(sent)
        time.sleep(1)
        made = [(tmp_path / f"{shard}").stat().st_size for shard in range(2)]
        assert all(5 <= items <= 5 + 66 for items in made)
    assert _children() == []


def test_few_large_items_are_held(tmp_path, monkeypatch):
    monkeypatch.setattr(generator_process, "_BUFFER_BYTES", 2**17)

    def make(shard, shards):
        for _ in range(1000):
            note_one(tmp_path / "made")
            yield np.zeros(2**17, np.uint8)

    with contextlib.closing(_run(make, 1)) as sent:
        next(sent)
        time.sleep(1)
        assert (tmp_path / "made").stat().st_size <= 6


# In a module, as users have them: of an inner function, cloudpickle does not send the file.
def make_failing(shard, shards):
    yield 1
    if shard == 1:
        raise ValueError("no more\nof this")
    yield 2


def test_an_error_names_its_place_and_ends_its_shard_only():
    sent = list(_run(make_failing, 2))
    assert [(each.kind, each.shard, each.item) for each in sent] == [
        *((ITEM, 0, 0), (ITEM, 1, 0), (ITEM, 0, 1), (FAILED, 1, 1)),
        (END, 0, 2),
    ]
    failure = sent[3].body
    assert failure.what == "ValueError: no more" and "of this" in failure.trace
    assert failure.where.startswith(f"{__file__}:") and "in make_failing" in failure.trace


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda shard: iter(()), "TypeError: "),
        (lambda shard, shards: 5, "TypeError: 'int' object is not iterable"),
        (lambda shard, shards: sys.exit(3), "SystemExit: 3"),
        (lambda shard, shards: iter([lambda: 0]), "AttributeError: "),
    ],
)
def test_a_function_that_is_no_generator_fails_like_one(make, what):
    if what.startswith("Attr"):  # What cannot be pickled is the encoder's mistake, and ends all.
        with pytest.raises(UserError, match="exit code"):
            list(_run(make, 1))
        return
    (sent,) = _run(make, 1)
    assert (sent.kind, sent.item) == (FAILED, 0) and sent.body.what.startswith(what)


def test_a_wrong_item_is_counted_and_the_next_one_comes():
    sent = list(_run(lambda shard, shards: iter(["even", "odd", "even"]), 1))
    assert [(each.kind, each.item) for each in sent] == [(ITEM, 0), (WRONG, 1), (ITEM, 2), (END, 3)]
    assert sent[1].body == "it is odd"


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda: os._exit(3), "item 2 of shard 1 of it ended with exit code 3"),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            "item 2 of shard 1 of it was killed by signal 9, as the system does where memory runs",
        ),
    ],
)
def test_a_dead_process_is_noticed_at_once(end, message):
    def make(shard, shards):
        yield from (1, 2)
        if shard == 1:
            end()
        yield from iter(int, 1)

    with pytest.raises(UserError, match=message):  # By the timeout it would end otherwise.
        list(_run(make, 2, timeout_s=300))
    assert _children() == []


def test_a_generator_that_hangs_ends_by_the_timeout():
    def make(shard, shards):
        yield 1
        threading.Event().wait()

    # The process may need all of that time to start, on a machine that is busy.
    with pytest.raises(UserError, match=r"item [01] of shard 0 of it was not yielded within"):
        list(_run(make, 1, timeout_s=3))
    assert _children() == []


def test_a_child_that_cannot_be_started_says_no_more_than_that(monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    monkeypatch.setattr(sys, "executable", "/none")
    with pytest.raises(FileNotFoundError, match="'/none'"):
        list(_run(_count, 1))
    gc.collect()
    assert ignored == []


def test_what_cannot_be_loaded_is_said():
    def fail():
        raise ImportError("no module my_data")

    with pytest.raises(UserError, match="it cannot be run: ImportError: no module my_data"):
        list(run_generators("it", fail, [0], 1, _same, 300))


def test_a_reader_that_stops_closes_the_generators(tmp_path):
    def make(shard, shards):
        try:
            yield from itertools.count()
        finally:
            (tmp_path / f"closed{shard}").touch()

    sent = _run(make, 2, workers=1)
    next(sent)
    next(sent)
    assert len(_children()) == 1
    del sent
    assert _children() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed0", "closed1"]


_PARENT = """
import os, signal, sys, time
from image_pipeline.components.generators.generator_process import run_generators

def load():
    def make(shard, shards):
        yield os.getpid()
        while True:
            time.sleep(0.01)
    return make

sent = run_generators("it", load, range(2), 2, abs, 300, workers=2)
print(next(sent).body, next(sent).body, flush=True)
if sys.argv[1] == "fork" and os.fork() == 0:  # It holds copies of all descriptors.
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["alone", "fork"])
def test_workers_end_when_their_parent_is_killed(kind):
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, kind], stdout=subprocess.PIPE)
    workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    forked = [psutil.Process(int(parent.stdout.readline()))] if kind == "fork" else []
    assert len(workers) == 2 and all(worker.is_running() for worker in workers)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(workers, timeout=120)
    for process in forked:
        process.kill()
    parent.stdout.close()
    assert alive == []


def test_a_process_that_ends_while_it_reads_leaves_nothing():
    script = _PARENT.replace("time.sleep(60)\n", "sys.exit(5)\n").replace("fork", "never")
    done = subprocess.run([sys.executable, "-c", script, "x"], capture_output=True, timeout=500)
    assert done.returncode == 5 and done.stderr == b""
    workers = map(int, done.stdout.split())
    assert not any(psutil.pid_exists(pid) for pid in workers)


def test_what_a_generator_prints_says_of_which_shard_it_is():
    script = """
        from image_pipeline.components.generators.generator_process import run_generators

        def load():
            print("loaded")
            def make(shard, shards):
                print("begun")
                yield 1
                print("half a line", end="")
                yield 2
                print(" and the rest")
            return make

        list(run_generators("it", load, range(2), 2, abs, 300, workers=1))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.stdout == "" and done.stderr.splitlines() == [
        *("generator: loaded", "shard 0: begun", "shard 1: begun"),
        *("shard 0: half a line and the rest", "shard 1: half a line and the rest"),
    ]


def test_what_a_generator_has_started_ends_with_it():
    def make(shard, shards):
        yield subprocess.Popen(["sleep", "600"]).pid
        time.sleep(600)

    sent = _run(make, 1)
    program = psutil.Process(next(sent).body)
    del sent
    _, alive = psutil.wait_procs([program], timeout=120)
    assert alive == []
