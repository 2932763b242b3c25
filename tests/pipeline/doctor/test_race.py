import pytest

from image_pipeline.doctor.race import compare, race

pytestmark = pytest.mark.unit


def test_settings_take_turns():
    order = []

    def measure(name):
        return lambda: order.append(name) or len(order)

    assert race({"a": measure("a"), "b": measure("b")}) == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert order == ["a", "b"] * 3


def test_each_round_is_compared_with_the_present_setting_of_that_round():
    figures = {"1": [10.0, 40.0, 30.0], "2": [20.0, 20.0, 20.0]}
    one, two = compare("prefetch", "training", figures, "2", {"1": "less memory"}).trials
    assert (one.images_per_s, one.ratio, one.least, one.most) == (30, 1.5, 0.5, 2)
    assert (one.is_present, one.note) == (False, "less memory")
    assert (two.images_per_s, two.ratio, two.is_present, two.note) == (20, 1, True, "")


def test_without_the_present_setting_the_first_one_is_the_measure():
    trials = compare("encoding", "input", {"jpeg": [2.0], "raw": [3.0]}, "bmp").trials
    assert [trial.ratio for trial in trials] == [1, 1.5]
    assert not any(trial.is_present for trial in trials)
