import numpy as np
import pytest

from image_pipeline.components.evaluation.class_figures import (
    bin_probabilities,
    calibration_error,
    describe_bins,
    find_chance,
)
from image_pipeline.components.evaluation.intervals import wilson_interval

pytestmark = pytest.mark.unit


def test_a_bin_has_its_upper_end():
    probabilities = np.array([0, 1e-9, 1 / 15, 1 / 15 + 1e-9, 0.5, 1])
    assert bin_probabilities(probabilities).tolist() == [0, 0, 0, 1, 7, 14]


def test_the_error_is_the_mean_distance_of_probability_and_accuracy():
    probabilities = np.array([0.9, 0.9, 0.9, 0.9, 0.5, 0.5])
    is_right = np.array([True, True, True, False, False, False])
    bins = bin_probabilities(probabilities)
    # Four at 0.9 with accuracy 0.75, and two at 0.5 with 0.
    expected = (4 * 0.15 + 2 * 0.5) / 6
    once = np.ones(6, np.int64)
    assert calibration_error(bins, probabilities, is_right, once) == pytest.approx(expected)
    # Without the last two only 0.15 is left.
    some = np.array([2, 2, 2, 2, 0, 0])
    assert calibration_error(bins, probabilities, is_right, some) == pytest.approx(0.15)
    assert np.isnan(calibration_error(bins, probabilities, is_right, 0 * once))


def test_chance_alone_makes_an_error():
    # Of 10,000 coins 112 more or fewer than half are heads in one of 40 times.
    assert find_chance(np.full(10**4, 7), np.full(10**4, 0.5)) == pytest.approx(0.0112, rel=0.05)
    assert find_chance(np.full(10, 14), np.ones(10)) == 0


def test_the_curve_has_a_point_for_each_bin_with_records():
    found = describe_bins(np.array([0.9, 0.92, 0.2]), np.array([True, False, False]))
    assert [(each["records"], each["accuracy"]) for each in found] == [(1, 0), (2, 0.5)]
    assert found[1]["probability"] == pytest.approx(0.91)
    assert (found[1]["low"], found[1]["high"]) == wilson_interval(1, 2)
    assert found[1]["up_to"] == pytest.approx(14 / 15)
