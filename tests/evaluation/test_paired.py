import numpy as np
import pytest

from image_pipeline.components.evaluation.intervals import compare_answers, find_p_value

pytestmark = pytest.mark.unit


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
