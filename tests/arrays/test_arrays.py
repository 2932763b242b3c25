"""Blocks of rows: each is read once, and few are held."""

import gc
import threading
import weakref

import numpy as np
import pytest

from image_pipeline.components.arrays.arrays import BlockCache
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

pytestmark = pytest.mark.unit


def test_few_blocks_are_held_however_many_are_read():
    cache, calls = BlockCache(most_bytes=250), []

    def get(key, size=100):
        return cache.get(key, lambda: calls.append(key) or np.full(size, key, np.uint8))

    assert [int(get(key)[0]) for key in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 2]
    assert calls == [1, 2, 3, 2]  # 2 was used longest ago when 3 came.
    for key in range(50):
        get(key)
    assert cache._held_bytes == 200
    assert len(cache._blocks) == 2
    assert len(get(99, size=1000)) == 1000  # The newest is held, whatever its size.
    assert list(cache._blocks) == [99]


def test_files_count_with_all_their_bytes():
    cache = BlockCache(most_bytes=250)
    for key in range(3):
        cache.get(key, lambda: np.array([bytes(60), bytes(40)], object))
    assert cache._held_bytes == 2 * (60 + 40 + 2 * 8)
    assert list(cache._blocks) == [1, 2]


def test_threads_share_a_reading():
    cache, calls, go = BlockCache(), [], threading.Event()

    def read():
        calls.append(1)
        assert go.wait(120)
        return np.zeros(3)

    found = []
    threads = [threading.Thread(target=lambda: found.append(cache.get(7, read))) for _ in range(4)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert len({id(rows) for rows in found}) == 1


def test_damage_is_remembered_and_other_errors_are_not():
    cache, calls = BlockCache(), []

    def fail(error):
        calls.append(error)
        raise error

    for _ in range(2):
        with pytest.raises(BadImage, match="cut") as raised:
            cache.get(1, lambda: fail(BadImage(CORRUPT, "cut")))
        assert raised.value.reason == CORRUPT
    assert len(calls) == 1
    for _ in range(2):
        with pytest.raises(OSError, match="later"):
            cache.get(2, lambda: fail(OSError("later")))
    assert len(calls) == 3
    assert cache.get(2, lambda: np.ones(1)) == 1


def test_damage_that_is_remembered_holds_nothing_of_its_reader():
    class Process:
        pass

    def fail():
        process = Process()
        started.append(weakref.ref(process))
        raise BadImage(CORRUPT, "cut")

    cache, started = BlockCache(), []
    with pytest.raises(BadImage, match="cut"):
        cache.get(1, fail)
    gc.collect()
    assert [process() for process in started] == [None]
