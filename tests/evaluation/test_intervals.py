import numpy as np
import pytest

from image_pipeline.components.evaluation.intervals import (
    Estimate,
    compare_answers,
    estimate_by_drawing,
    estimate_f1,
    estimate_share,
    find_p_value,
    reflect,
    wilson_interval,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        (3, 8, 0.136844, 0.694258),
        (5, 5, 0.565518, 1),
        (0, 5, 0, 0.434482),
        (360, 363, 0.976, 0.997),
    ],
)
def test_intervals_are_wilsons(right, total, low, high):
    # The first three worked out by hand from Wilson's formula with z = 1.959964.
    assert wilson_interval(right, total) == pytest.approx((low, high), abs=5e-4)
    assert estimate_share(right, total) == Estimate(right / total, *wilson_interval(right, total))


def test_without_records_anything_is_possible():
    assert wilson_interval(0, 0) == (0, 1)
    nothing = estimate_share(0, 0)
    assert np.isnan(nothing.value) and nothing.interval == (0, 1)


def test_f1_has_the_interval_of_its_share():
    # Of eight records that are of the class or taken for it, three are both: 2·3 / (3 + 3 + 5).
    low, high = wilson_interval(3, 8)
    expected = Estimate(6 / 11, 2 * low / (1 + low), 2 * high / (1 + high))
    assert estimate_f1(3, 5) == expected
    # One record says little, though all of what could be drawn of it is the same.
    assert estimate_f1(1, 0).interval == pytest.approx((0.3424, 1), abs=1e-4)
    nothing = estimate_f1(0, 0)
    assert np.isnan(nothing.value) and nothing.interval is None


def test_what_is_drawn_is_always_the_same_and_as_wide_as_theory_says():
    values = np.random.default_rng(1).normal(size=2000)

    def mean(weights):
        return {"mean": float((weights * values).sum() / weights.sum()), "none": np.nan}

    found = estimate_by_drawing(mean, 2000)
    assert found == estimate_by_drawing(mean, 2000) or np.isnan(found["none"].value)
    estimate = found["mean"]
    assert estimate.value == values.mean()
    error = 1.96 * values.std() / np.sqrt(2000)
    assert estimate.interval == pytest.approx(
        (values.mean() - error, values.mean() + error), abs=0.1 * error
    )
    assert estimate_by_drawing(mean, 2000)["mean"] == estimate
    assert estimate_by_drawing(mean, 2000, seed=1)["mean"] != estimate
    assert found["none"].interval is None
    # What never varies, a single record's figure say, tells nothing of chance.
    assert estimate_by_drawing(lambda weights: {"same": 0.7}, 1) == {"same": Estimate(0.7)}
    assert estimate_by_drawing(mean, 0) == {}


def test_a_distance_s_interval_is_reflected_and_holds_the_figure():
    assert reflect(Estimate(0.25, 0.125, 0.5)) == Estimate(0.25, 0.0, 0.375)
    # All that was drawn is further off, as that of a well calibrated model is.
    assert reflect(Estimate(0.25, 0.375, 0.5)) == Estimate(0.25, 0.0, 0.25)
    assert reflect(Estimate(0.25)) == Estimate(0.25)
    # So much is measured where there is nothing, too.
    assert reflect(Estimate(0.25, 0.125, 0.26), 0.25) == Estimate(0.25, 0.0, 0.375)
    assert reflect(Estimate(0.25, 0.125, 0.26), 0.2) == Estimate(0.25, 0.24, 0.375)


@pytest.mark.parametrize(
    ("some", "others", "p_value"),
    # A coin that shows heads 0 of 5 times: 2 / 32; 1 of 9: 2 · (1 + 9) / 512.
    [(0, 5, 2 / 32), (5, 0, 2 / 32), (1, 8, 20 / 512), (3, 3, 1), (0, 0, 1)],
)
def test_mcnemars_test_is_exact(some, others, p_value):
    assert find_p_value(some, others) == pytest.approx(p_value)


def test_only_records_that_one_of_both_gets_right_count():
    is_right = np.array([True] * 60 + [True] * 8 + [False] * 1 + [False] * 31)
    was_right = np.array([True] * 60 + [False] * 8 + [True] * 1 + [False] * 31)
    found = compare_answers(is_right, was_right)
    assert (found["only_new"], found["only_earlier"]) == (8, 1)
    assert found["p_value"] == pytest.approx(20 / 512)
    gained = found["gained"]
    assert gained.value == pytest.approx(0.07)
    assert 0 < gained.low < 0.03 and 0.11 < gained.high < 0.15
    assert found == compare_answers(is_right, was_right)
