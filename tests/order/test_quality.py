import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

from image_pipeline.components.order import quality

pytestmark = pytest.mark.unit


def shuffled(count, seed=0):
    return np.random.default_rng(seed).permutation(count)


def test_rank_correlation_is_spearmans():
    ids = np.random.default_rng(0).integers(0, 50, 200)  # With many ties.
    expected = stats.spearmanr(ids, np.arange(200)).statistic
    assert quality.rank_correlation(ids) == pytest.approx(expected)
    assert quality.rank_correlation(np.arange(10)) == pytest.approx(1)
    assert quality.rank_correlation(np.arange(10)[::-1]) == pytest.approx(-1)


def test_repeated_neighbours_counts_pairs_either_way_round():
    first = np.array([0, 1, 2, 3, 4])
    assert quality.repeated_neighbours(first, first) == 1
    assert quality.repeated_neighbours(first, first[::-1]) == 1
    assert quality.repeated_neighbours(first, np.array([1, 0, 3, 2, 4])) == 0.5
    assert quality.repeated_neighbours(first, np.array([0, 2, 4, 1, 3])) == 0


def test_pairs_of_large_ids_are_told_apart():
    first = np.array([2**31 - 1, 2**31 - 2, 2**31 - 3])
    assert quality.repeated_neighbours(first, first[[0, 2, 1]]) == 0.5


def test_classes_in_batch_leaves_the_smaller_batch_out():
    labels = np.array([3, 3, 3, 3, 1, 2, 3, 3, 9])
    assert quality.classes_in_batch(labels, 4) == (1 + 3) / 2


def test_label_run_is_a_mean():
    assert quality.label_run(np.array([1, 1, 1, 2, 2, 1])) == 2
    assert quality.label_run(np.array([7])) == 1


def test_views_in_batches_and_their_distance():
    ids = np.array([0, 1, 2, 0, 3, 3, 1, 4])
    assert quality.repeats_in_batches(ids, 4) == 1
    assert quality.repeats_in_batches(ids, 2) == 0.25
    assert quality.min_distance(ids) == 1
    assert quality.min_distance(ids[:4]) == 3
    assert quality.min_distance(ids[:3]) == 3


def test_ideal_figures_are_the_means_of_random_permutations():
    labels = np.repeat(np.arange(12), np.arange(10, 130, 10))
    ideal = dataclasses.astuple(quality.ideal_quality(labels, 16))
    orders = [shuffled(len(labels), seed) for seed in range(201)]
    measured = [
        dataclasses.astuple(quality.measure_quality(first, second, labels, 16))
        for first, second in itertools.pairwise(orders)
    ]
    error = np.std(measured, axis=0) / np.sqrt(len(measured))
    assert (np.abs(np.mean(measured, axis=0) - ideal) < 4 * error + 1e-4).all()


def test_the_stored_order_is_seen_to_be_no_shuffle():
    labels = np.repeat(np.arange(10), 100)
    stored = np.arange(1000)
    measured = quality.measure_quality(stored, stored, labels, 50)
    assert dataclasses.astuple(measured) == pytest.approx((1, 1, 1, 100))
