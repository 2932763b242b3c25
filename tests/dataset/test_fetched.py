"""Records of shards in a store: which requests they take, and what is kept of them."""

import collections
import functools
import os
import threading

import numpy as np
import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset.fetched import FetchedRecords, KeptShards
from image_pipeline.components.dataset.tfrecord import frame

pytestmark = pytest.mark.unit

SHARDS = ["s3://bucket/a", "s3://bucket/b", "s3://bucket/c"]
SIZES = (300, 90_000, 10, 7)


def _records(shard):
    return [bytes([shard * 10 + number]) * size for number, size in enumerate(SIZES)]


def _contents(shard):
    return b"".join(map(frame, _records(shard)))


def places(shard):
    sizes = [len(frame(each)) for each in _records(shard)]
    starts = np.cumsum([0, *sizes])
    return [(shard, int(start), size) for start, size in zip(starts, sizes, strict=False)]


@pytest.fixture
def asked(monkeypatch):
    """The requests so far: shard, first byte, and the one after the last."""
    asked, lock = [], threading.Lock()

    def read_file(path, start, end):
        shard = SHARDS.index(path)
        with lock:
            asked.append((shard, start, end))
        return _contents(shard)[start:end]

    monkeypatch.setattr(files, "read_file", read_file)
    return asked


def read(fetched, wanted):
    fetched.announce(wanted)
    found = [fetched.read(place) for place in wanted]
    fetched.release(wanted)
    return found


def expected(wanted):
    return [_contents(shard)[start : start + size] for shard, start, size in wanted]


def test_records_near_each_other_are_one_request(asked):
    first, second = places(0), places(1)
    # Between the first of a shard and its third are 90 kB.
    wanted = [second[3], first[2], first[0], second[2], first[3]]
    assert read(FetchedRecords(SHARDS), wanted) == expected(wanted)
    assert sorted(asked) == [
        (0, 0, first[0][2]),
        (0, first[2][1], sum(first[3][1:])),
        (1, second[2][1], sum(second[3][1:])),
    ]


def test_a_record_is_asked_for_once_however_often_it_is_read_and_announced(asked):
    fetched, wanted = FetchedRecords(SHARDS), places(0)[:1]
    fetched.announce(wanted * 2)
    fetched.announce(wanted)
    assert [fetched.read(wanted[0]) for _ in range(3)] == expected(wanted) * 3
    fetched.release(wanted * 2)
    assert fetched.read(wanted[0]) == expected(wanted)[0]
    assert len(asked) == 1
    fetched.release(wanted)
    assert fetched.read(wanted[0]) == expected(wanted)[0]
    assert len(asked) == 2
    assert not fetched._answers
    assert not fetched._users


def test_of_a_request_no_more_is_held_than_is_needed(asked):
    fetched, wanted = FetchedRecords(SHARDS), places(1)
    fetched.announce(wanted)
    assert [fetched.read(place) for place in wanted] == expected(wanted)
    answer = fetched._answers[wanted[3]].result()
    fetched.release(wanted[:3])
    assert [*answer] == wanted[3:]
    assert fetched.read(wanted[3]) == expected(wanted)[3]
    assert len(asked) == 1


def test_announcing_waits_for_nothing(monkeypatch):
    go_on = threading.Event()

    def read_file(path, start, end):
        go_on.wait(20)
        return _contents(SHARDS.index(path))[start:end]

    monkeypatch.setattr(files, "read_file", read_file)
    fetched = FetchedRecords(SHARDS)
    wanted = [place for shard in range(3) for place in places(shard)]
    fetched.announce(wanted)
    go_on.set()
    assert [fetched.read(place) for place in wanted] == expected(wanted)


def test_an_error_is_that_of_whoever_reads_and_of_nobody_else(monkeypatch, asked):
    read_file = files.read_file

    def fail(path, start, end):
        if path == SHARDS[1]:
            raise FileNotFoundError(2, "No such file", path)
        return read_file(path, start, end)

    monkeypatch.setattr(files, "read_file", fail)
    fetched, wanted = FetchedRecords(SHARDS), [places(0)[0], places(1)[0]]
    fetched.announce(wanted)
    assert fetched.read(wanted[0]) == expected(wanted)[0]
    with pytest.raises(FileNotFoundError):
        fetched.read(wanted[1])


def test_of_the_shards_that_fit_each_record_is_asked_for_once(asked, tmp_path):
    sizes = np.array([len(_contents(shard)) for shard in range(3)])
    everything = [place for shard in range(3) for place in places(shard)]
    rounds = []
    for share in (0, sizes[0] - 1, sizes[0], sizes[0] + sizes[1], 10**9):
        kept = functools.partial(KeptShards, str(tmp_path / str(share)), sizes, share)
        for make in (kept, kept):  # The second is another process.
            asked.clear()
            wanted = everything[::-1]
            assert read(FetchedRecords(SHARDS, make()), wanted) == expected(wanted)
            rounds.append(dict(collections.Counter(shard for shard, _, _ in asked)))
    all_of_them = {0: 1, 1: 1, 2: 1}
    assert rounds[::2] == [all_of_them] * 5
    assert rounds[1::2] == [all_of_them, all_of_them, {1: 1, 2: 1}, {2: 1}, {}]


@pytest.mark.parametrize("damage", ["flip", "cut", "hole"])
def test_what_is_kept_and_damaged_is_asked_for_again(asked, tmp_path, damage):
    sizes = np.array([len(_contents(shard)) for shard in range(3)])
    wanted = places(0)
    kept = KeptShards(str(tmp_path), sizes, 10**9)
    read(FetchedRecords(SHARDS, kept), wanted)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[20] ^= 1
    elif damage == "cut":
        del content[-3:]
    else:
        content[:300] = bytes(300)
    path.write_bytes(content)
    asked.clear()
    again = FetchedRecords(SHARDS, KeptShards(str(tmp_path), sizes, 10**9))
    assert read(again, wanted) == expected(wanted)
    assert len(asked) == 1
    assert path.read_bytes() == _contents(0)


def test_what_is_kept_is_read_though_the_disk_is_full(asked, tmp_path, monkeypatch):
    fetched = FetchedRecords(SHARDS, KeptShards(str(tmp_path), np.array([10**6] * 3), 10**9))
    read(fetched, places(0))

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    read(fetched, places(1))
    asked.clear()
    assert read(fetched, places(0)) == expected(places(0))
    assert not asked


def test_kept_shards_take_no_open_files(asked, tmp_path):
    kept = KeptShards(str(tmp_path), np.array([10**6] * 3), 10**9)
    for shard in range(3):
        kept.keep(dict(zip(places(shard), expected(places(shard)), strict=True)))
        assert list(kept.read(places(shard)).values()) == expected(places(shard))
    opened = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert opened and not [path for path in opened if path.startswith(str(tmp_path))]


def test_a_folder_that_cannot_be_written_keeps_nothing_and_says_so(asked, tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    kept = KeptShards(str(tmp_path / "file" / "below"), np.array([10**6] * 3), 10**9)
    fetched = FetchedRecords(SHARDS, kept)
    assert read(fetched, places(0)) == expected(places(0))
    assert read(fetched, places(0)) == expected(places(0))
    assert len(asked) == 2
    assert caplog.text.count("Records are no longer kept in") == 1


def test_of_a_request_only_what_is_not_kept_is_asked_for(asked, tmp_path):
    wanted = places(0)
    kept = KeptShards(str(tmp_path), np.array([10**6] * 3), 10**9)
    kept.keep(dict(zip(wanted[:2], expected(wanted[:2]), strict=True)))
    assert read(FetchedRecords(SHARDS, kept), wanted) == expected(wanted)
    assert asked == [(0, wanted[2][1], sum(wanted[3][1:]))]
    assert [*kept.read(wanted)] == wanted
