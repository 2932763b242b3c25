import concurrent.futures
import itertools
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.threads import (
    call_together,
    call_within,
    map_in_order,
    start,
    take_ahead,
    usable_cores,
)

pytestmark = pytest.mark.unit


@given(st.lists(st.integers(), max_size=60), st.integers(1, 5), st.integers(1, 9))
def test_results_come_in_the_order_of_the_items(items, threads, batch):
    doubled = map_in_order(lambda item: item * 2, items, threads, batch)
    assert list(doubled) == [i * 2 for i in items]


def test_items_run_side_by_side():
    barrier = threading.Barrier(3, timeout=120)  # Passes only if three threads wait at once.
    assert list(map_in_order(lambda item: barrier.wait() >= 0, range(3), 3)) == [True] * 3


def test_a_batch_is_one_thread_s_work():
    names = map_in_order(lambda _: threading.current_thread().name, range(8), 2, batch=4)
    assert len(set(itertools.islice(names, 4))) == 1


def test_few_results_wait_when_they_are_taken_slowly():
    started = []
    results = map_in_order(lambda item: started.append(item), range(1000), 2)
    next(results)
    time.sleep(0.05)
    assert len(started) <= 8


def test_an_error_comes_in_its_place():
    results = map_in_order(lambda item: 1 // item, [1, 0, 1], 2)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


@given(st.lists(st.integers(), max_size=20))
def test_what_is_made_ahead_comes_in_order(items):
    assert list(take_ahead(iter(items))) == items


def test_the_next_item_is_made_while_one_is_used():
    is_made = threading.Event()

    def make():
        yield 1
        is_made.set()
        yield 2
        raise AssertionError("Too far ahead.")

    items = take_ahead(make())
    assert next(items) == 1 and is_made.wait(60)
    items.close()


def test_an_error_in_making_an_item_comes_in_its_place():
    items = take_ahead(1 // item for item in [1, 0, 1])
    assert next(items) == 1
    with pytest.raises(ZeroDivisionError):
        next(items)


def test_calls_wait_together_and_answer_in_their_order():
    barrier = threading.Barrier(3, timeout=120)

    def call(number):
        barrier.wait()  # Passes only if three threads wait at once.
        return number

    assert call_together(*(lambda n=n: call(n) for n in range(3))) == [0, 1, 2]


def test_the_first_error_is_raised_when_all_have_ended():
    ended = []

    def end():
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(ZeroDivisionError):
        call_together(lambda: 1 // 0, end)
    assert ended == [True]


def test_a_call_that_was_begun_is_waited_for_when_its_result_is_asked_for():
    go_on = threading.Event()
    begun = start(lambda: go_on.wait(120))
    assert not begun.done()
    go_on.set()
    assert begun.result(120) is True


def test_there_is_a_core():
    assert usable_cores() >= 1


def test_a_call_within_its_time_gives_its_result():
    assert call_within(120, lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        call_within(120, lambda: 1 // 0)


def test_a_call_that_never_returns_is_left():
    with pytest.raises(TimeoutError):
        call_within(0.01, threading.Event().wait)


def test_fewer_wait_with_less_ahead():
    started = []
    results = map_in_order(lambda item: started.append(item), range(1000), 2, ahead=1)
    next(results)
    time.sleep(0.05)
    assert len(started) <= 2


def test_after_an_error_nothing_more_is_begun(monkeypatch):
    begun, is_ending = [], threading.Event()
    shutdown = concurrent.futures.ThreadPoolExecutor.shutdown

    def end(pool, **options):
        shutdown(pool, **{**options, "wait": False})
        is_ending.set()
        shutdown(pool)

    def work(item):
        begun.append(item)
        if item == 0:
            raise KeyError("first")
        is_ending.wait(120)

    monkeypatch.setattr(concurrent.futures.ThreadPoolExecutor, "shutdown", end)
    with pytest.raises(KeyError, match="first"):
        next(map_in_order(work, range(100), 2, ahead=40))
    assert len(begun) <= 3  # One a thread, and the one that failed.
