"""A shuffle by shards: each row once, few shards at a time, and for each worker its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.order.batches import batch_positions, steps_per_epoch, worker_bounds
from image_pipeline.components.order.shards_order import ShardsOrder

pytestmark = pytest.mark.unit

SEED = st.integers(0, 2**62)
# Of shards: also empty ones, and of a single record.
COUNTS = st.lists(st.integers(0, 400), min_size=1, max_size=12).filter(any)
BATCH = st.integers(1, 90)
AT_ONCE = st.integers(1, 20)


def starts_of(counts):
    return np.cumsum([0, *counts])


def order_of(counts, seed=0, batch_size=8, shards_at_once=2, views=1):
    rows = range(sum(counts))
    return ShardsOrder(rows, starts_of(counts), seed, batch_size, shards_at_once, views)


def epoch_of(order, epoch=0):
    return order.draw(epoch, np.arange(order.length))


@given(COUNTS, SEED, st.integers(0, 10**6), BATCH, AT_ONCE)
def test_every_row_comes_once_an_epoch(counts, seed, epoch, batch_size, at_once):
    draws = epoch_of(order_of(counts, seed, batch_size, at_once), epoch)
    assert draws.rows.dtype == draws.views.dtype == draws.copies.dtype == np.int64
    assert sorted(draws.rows) == list(range(sum(counts)))
    assert not draws.views.any()
    assert not draws.copies.any()


FROZEN = [
    [13, 16, 4, 3, 17, 14, 10, 7, 15, 18, 6, 8, 12, 0, 11, 9, 2, 1, 5],
    [2, 3, 11, 10, 4, 0, 12, 15, 1, 6, 14, 13, 7, 5, 16, 18, 8, 9, 17],
]
FROZEN_VIEWS = [
    (0, 1),
    (4, 0),
    (8, 1),
    (6, 1),
    (1, 0),
    (2, 1),
    (9, 1),
    (10, 1),
    (3, 0),
    (5, 0),
    (7, 0),
    (11, 1),
    (1, 1),
    (0, 0),
    (6, 0),
    (8, 0),
    (4, 1),
    (3, 1),
    (9, 0),
    (7, 1),
    (2, 0),
    (5, 1),
    (11, 0),
    (10, 0),
]
FROZEN_LARGE = [83057042242, 445468698350, 554131874951, 606328423899, 99423066346, 522434754978]


def test_the_order_is_this_one():
    """Frozen: a training that goes on with another version must see the same batches."""
    order = order_of([5, 0, 7, 1, 6], seed=3, batch_size=4, shards_at_once=2)
    assert epoch_of(order, 0).rows.tolist() == FROZEN[0]
    assert epoch_of(order, 1).rows.tolist() == FROZEN[1]
    views = order_of([5, 0, 7], seed=3, batch_size=4, shards_at_once=2, views=2)
    draws = epoch_of(views, 2)
    assert list(zip(draws.rows.tolist(), draws.views.tolist(), strict=True)) == FROZEN_VIEWS
    large = ShardsOrder(range(10**12), np.arange(0, 10**12 + 1, 10**9), 5, 256, 16)
    assert large.draw(9, 10**11 + np.arange(0, 256, 51)).rows.tolist() == FROZEN_LARGE


@given(COUNTS, SEED, BATCH, AT_ONCE, st.data())
def test_any_step_is_entered_by_any_number_of_workers(counts, seed, batch_size, at_once, data):
    order = order_of(counts, seed, batch_size, at_once)
    whole = epoch_of(order, 4).rows
    step = data.draw(st.integers(0, steps_per_epoch(order.length, batch_size, "keep") - 1))
    positions = batch_positions(step, batch_size, order.length)
    again = order_of(counts, seed, batch_size, at_once)  # It has drawn nothing before.
    for workers in (1, 2, 3, 8):
        bounds = [worker_bounds(len(positions), worker, workers) for worker in range(workers)]
        parts = [again.draw(4, positions[start:stop]).rows for start, stop in bounds]
        assert np.concatenate(parts).tolist() == whole[positions].tolist()


@given(SEED, st.integers(0, 10**6))
def test_the_order_hangs_on_seed_and_epoch(seed, epoch):
    def rows(*key):
        return epoch_of(order_of([60] * 10, key[0], 16, 4), key[1]).rows.tolist()

    assert rows(seed, epoch) == rows(seed, epoch)
    assert rows(seed, epoch) != rows(seed, epoch + 1)
    assert rows(seed, epoch) != rows(seed + 1, epoch)


def test_the_shards_of_an_epoch_and_the_rows_in_them_are_permuted():
    counts = [300] * 40
    order = order_of(counts, 1, 10, 1)
    first, second = (epoch_of(order, epoch).rows.reshape(40, 300) for epoch in (0, 1))
    shards = [(rows // 300)[:, 0].tolist() for rows in (first, second)]
    for rows in (first, second):
        assert ((rows // 300) == (rows // 300)[:, :1]).all()  # One shard after the other.
    assert sorted(shards[0]) == sorted(shards[1]) == list(range(40))
    assert shards[0] != shards[1] != list(range(40))
    orders = {tuple(rows % 300) for rows in (*first, *second)}
    assert len(orders) == 80


@pytest.mark.parametrize(("at_once", "batch_size"), [(1, 64), (4, 64), (16, 64), (5, 64), (64, 7)])
def test_a_batch_takes_equal_parts_of_shards_and_a_worker_its_own(at_once, batch_size):
    counts = [100] * 64
    order = order_of(counts, 2, batch_size, at_once)
    lanes = min(at_once, batch_size)
    rows = epoch_of(order).rows
    rows = rows[: len(rows) // batch_size * batch_size].reshape(-1, batch_size) // 100
    for places in np.array_split(np.arange(batch_size), lanes):
        # Within a lane, each shard comes in one piece; two of a batch only where one ends.
        lane = rows[:, places[0] : places[-1] + 1]
        pieces = np.flatnonzero(np.diff(lane.ravel()) != 0)
        assert len(pieces) < len(counts) / lanes + 2
    if lanes == 16:
        for workers in (2, 4, 8):
            read = [len(np.unique(part)) for part in np.split(rows.T, workers)]
            assert sum(read) <= len(counts) + lanes


def test_rows_that_are_not_read_are_left_out():
    counts = [50, 60, 1, 70]
    rows = np.array([3, 4, 49, 50, 111, 150, 180])
    order = ShardsOrder(rows, starts_of(counts), 0, 3, 2)
    assert sorted(epoch_of(order).rows) == rows.tolist()
    step = ShardsOrder(range(3, 181, 7), starts_of(counts), 0, 3, 2)
    as_array = ShardsOrder(np.arange(3, 181, 7), starts_of(counts), 0, 3, 2)
    assert epoch_of(step).rows.tolist() == epoch_of(as_array).rows.tolist()


@given(COUNTS, SEED, st.integers(1, 4), BATCH, AT_ONCE)
def test_views_come_once_each_and_no_closer_than_promised(counts, seed, views, batch_size, at_once):
    order = order_of(counts, seed, batch_size, at_once, views)
    assert order.length == sum(counts) * views
    draws = epoch_of(order, 1)
    found = set(zip(draws.rows.tolist(), draws.views.tolist(), strict=True))
    assert found == {(row, view) for row in range(sum(counts)) for view in range(views)}
    positions = np.argsort(draws.rows, kind="stable").reshape(-1, views)
    assert np.diff(positions, axis=1).min(initial=order.length) >= order.min_distance()


def test_the_distance_of_views_is_half_of_the_rows_or_more_and_reached():
    assert order_of([100], views=2, shards_at_once=1).min_distance() == 51
    assert order_of([100] * 50, views=2, batch_size=16).min_distance() == 5000 - 7 * 8 - 49
    assert order_of([7, 8]).min_distance() == 15
    single = order_of([20], views=2, shards_at_once=1)
    positions = [
        np.argsort(epoch_of(single, epoch).rows, kind="stable").reshape(-1, 2)
        for epoch in range(200)
    ]
    assert min(np.diff(each, axis=1).min() for each in positions) == single.min_distance() == 11


def test_a_large_data_set_takes_some_bytes_a_shard():
    records, shards = 10**9, 1000
    order = ShardsOrder(range(records), np.arange(0, records + 1, records // shards), 0, 256, 16)
    rows = order.draw(0, batch_positions(10**6, 256, records)).rows
    assert len(set(rows.tolist())) == 256
    assert len(set((rows // (records // shards)).tolist())) == 16
    assert [order.find(0, int(row)).item() for row in rows[::51]] == [
        256 * 10**6 + place for place in range(0, 256, 51)
    ]


def test_wrong_sizes_are_refused():
    for sizes in ({"batch_size": 0}, {"shards_at_once": 0}, {"views": 0}):
        with pytest.raises(ValueError, match="must be positive, got"):
            order_of([3], **sizes)
    with pytest.raises(ValueError, match="rows must not be empty"):
        order_of([0])
    with pytest.raises(ValueError, match=r"positions must be in \[0, 3\)"):
        order_of([3]).draw(0, np.array([3]))
