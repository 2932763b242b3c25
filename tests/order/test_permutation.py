import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.order.permutation import permute
from image_pipeline.components.order.quality import rank_correlation, repeated_neighbours

pytestmark = pytest.mark.unit

KEYS = st.tuples(st.integers(-(2**63), 2**63), st.integers(0, 1000))


def order(length, key=(0, 0)):
    return permute(np.arange(length), length, key)


@given(st.integers(1, 5000), KEYS)
def test_every_length_is_permuted(length, key):
    assert np.array_equal(np.sort(order(length, key)), np.arange(length))


@pytest.mark.parametrize("length", [1, 2, 255, 256, 257, 258, 2**16, 2**16 + 1, 65_535, 99_999])
def test_lengths_around_squares_and_powers_are_permuted(length):
    assert np.array_equal(np.sort(order(length)), np.arange(length))


@given(st.integers(1, 2**62), KEYS, st.data())
def test_a_position_goes_where_it_goes_in_any_company(length, key, data):
    positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=20))
    together = permute(np.array(positions, np.int64), length, key)
    alone = [permute(np.array([position], np.int64), length, key)[0] for position in positions]
    assert together.tolist() == alone


@pytest.mark.parametrize("length", [10**9, 10**12, 2**62 - 1, 2**62])
def test_huge_lengths_are_permuted_without_a_list(length):
    generator = np.random.default_rng(0)
    positions = np.unique(generator.integers(0, length, 200_000))
    positions = np.concatenate([positions, np.arange(1000), length - 1 - np.arange(1000)])
    positions = np.unique(positions)
    places = permute(positions, length, (0, 1))
    assert places.dtype == np.int64
    assert places.min() >= 0
    assert places.max() < length
    assert len(np.unique(places)) == len(positions)
    counts = np.bincount(places // -(-length // 20), minlength=20)
    expected = len(places) / 20
    # Chi-squared with 19 degrees of freedom exceeds 50.8 once in 10,000 times.
    assert ((counts - expected) ** 2 / expected).sum() < 50.8


def test_neighbours_and_ends_are_scattered_in_huge_lengths():
    places = permute(np.arange(100_000), 10**12, (3, 4))
    assert abs(rank_correlation(places)) < 5 / math.sqrt(len(places))
    assert np.abs(np.diff(places)).mean() == pytest.approx(10**12 / 3, rel=0.02)


@given(st.integers(0, 2**40), st.integers(0, 100))
def test_orders_of_two_keys_are_unrelated(seed, epoch):
    orders = [order(2000, key) for key in ((seed, epoch), (seed, epoch + 1), (seed + 1, epoch))]
    for first, second in itertools.combinations(orders, 2):
        # Equal places of two permutations follow Poisson(1): 12 once in 10^10 times.
        assert (first == second).sum() < 12


def test_orders_are_the_same_on_every_machine():
    assert order(10, (1, 2)).tolist() == SMALL
    assert permute(np.arange(5), 10**9, (1, 2)).tolist() == LARGE


# Written down once: a change of these would break every run that is resumed.
SMALL = [5, 9, 3, 6, 0, 2, 4, 1, 8, 7]
LARGE = [243944502, 730299028, 920975023, 104594513, 990098524]


@pytest.mark.parametrize("length", [3, 4, 5])
def test_small_lengths_take_every_order_equally_often(length):
    draws = 4000
    seen = collections.Counter(tuple(order(length, (seed,))) for seed in range(draws))
    possible = math.factorial(length)
    expected = draws / possible
    assert len(seen) == possible
    chi_squared = sum((count - expected) ** 2 / expected for count in seen.values())
    freedom = possible - 1
    assert chi_squared < freedom + 4 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("length", [257, 400])
def test_every_place_is_equally_likely(length):
    draws = 40 * length
    positions = np.array([0, length // 2, length - 1])
    places = np.array([permute(positions, length, (seed,)) for seed in range(draws)])
    for column in places.T:
        counts = np.bincount(column, minlength=length)
        chi_squared = ((counts - 40) ** 2 / 40).sum()
        assert abs(chi_squared - length) < 5 * math.sqrt(2 * length)
    # No pair of places is favoured either: sums of two independent uniform numbers.
    sums = np.bincount((places[:, 0] + places[:, 1]) % length, minlength=length)
    assert abs(((sums - 40) ** 2 / 40).sum() - length) < 5 * math.sqrt(2 * length)


def test_shuffle_quality_is_that_of_ideal_permutations():
    length, epochs = 20_000, 20
    orders = [order(length, (0, epoch)) for epoch in range(epochs)]
    correlations = np.array([rank_correlation(each) for each in orders])
    assert np.abs(correlations).max() < 4.5 / math.sqrt(length)
    assert correlations.std() == pytest.approx(1 / math.sqrt(length), rel=0.6)
    repeated = [
        repeated_neighbours(first, second) * (length - 1)
        for first, second in itertools.pairwise(orders)
    ]
    assert np.mean(repeated) == pytest.approx(2, abs=4 * math.sqrt(2 / (epochs - 1)))


@pytest.mark.parametrize(
    ("positions", "length", "message"),
    [
        (np.array([5]), 5, r"positions must be in \[0, 5\), got 5 to 5"),
        (np.array([-1, 2]), 5, r"got -1 to 2"),
        (np.array([0]), 0, "length must be from 1 to"),
        (np.array([0]), 2**62 + 1, "length must be from 1 to"),
        (np.array([0.0]), 5, "whole numbers in one dimension, got float64"),
        (np.zeros((1, 1), np.int64), 5, "one dimension"),
    ],
)
def test_what_is_out_of_range_is_refused(positions, length, message):
    with pytest.raises(ValueError, match=message):
        permute(positions, length, (0,))


def test_no_positions_are_fine():
    assert permute(np.zeros(0, np.int64), 10, (0,)).shape == (0,)
