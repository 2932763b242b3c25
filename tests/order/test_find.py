"""Where a row comes in an epoch: the inverse of what each order draws."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.order.order import (
    BalancedOrder,
    SequentialOrder,
    ShardsOrder,
    ShuffledOrder,
    ViewsOrder,
)
from image_pipeline.components.order.permutation import invert, permute

pytestmark = pytest.mark.unit

SEED = st.integers(0, 2**62)
ROWS = st.one_of(
    st.lists(st.integers(0, 2000), min_size=1, max_size=400, unique=True).map(np.array),
    st.builds(range, st.integers(0, 50), st.integers(51, 600), st.integers(1, 3)),
)


def balanced(rows, seed, classes, weights):
    labels = np.arange(len(rows)) % min(classes, len(rows))
    chosen = {number: weights[number] for number in np.unique(labels).tolist()}
    return BalancedOrder(labels, rows, chosen, seed, max_oversampling=np.inf)


def sharded(rows, seed, ends, batch_size, shards_at_once, views):
    """Of shards that end at these rows, some of them empty or not read."""
    starts = np.array([0, *sorted(ends), 2001])
    return ShardsOrder(np.sort(rows), starts, seed, batch_size, shards_at_once, views)


ORDERS = st.one_of(
    st.builds(SequentialOrder, ROWS),
    st.builds(ShuffledOrder, ROWS, SEED),
    st.builds(ViewsOrder, ROWS, SEED, st.integers(1, 4)),
    st.builds(
        sharded,
        ROWS,
        SEED,
        st.lists(st.integers(0, 2001), max_size=30),
        st.integers(1, 90),
        st.integers(1, 20),
        st.integers(1, 3),
    ),
    st.builds(
        balanced,
        ROWS,
        SEED,
        st.integers(1, 5),
        st.lists(st.floats(0.1, 9), min_size=5, max_size=5),
    ),
)


@given(ORDERS, st.integers(0, 10**6))
def test_a_row_is_found_where_it_is_drawn(order, epoch):
    positions = collections.defaultdict(list)
    for position, row in enumerate(order.draw(epoch, np.arange(order.length)).rows.tolist()):
        positions[row].append(position)
    for row in {*positions, 2001}:
        found = order.find(epoch, row)
        assert found.dtype == np.int64
        assert found.tolist() == positions.get(row, [])


@given(st.integers(1, 2**62), SEED, st.data())
def test_a_permutation_of_any_length_is_inverted(length, seed, data):
    positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=9))
    places = permute(np.array(positions), length, (seed, 1))
    assert invert(places, length, (seed, 1)).tolist() == positions


@pytest.mark.parametrize("length", [1, 2, 256, 257, 1000])
def test_every_place_of_an_epoch_has_its_position(length):
    places = permute(np.arange(length), length, (3, 4))
    np.testing.assert_array_equal(invert(places, length, (3, 4)), np.arange(length))
