import numpy as np
import pytest

from image_pipeline.report.misses import TagMiss, ValueMiss, describe_tags_off, describe_values_off

pytestmark = pytest.mark.unit


def test_the_images_with_the_highest_loss_and_what_was_wrong():
    has = np.array([[True, False], [False, False], [True, True]])
    probabilities = np.array([[0.9, 0.2], [0.8, 0.1], [0.25, 0.75]], np.float32)
    found = describe_tags_off(np.array([7, 8, 9]), has, probabilities, ["sky", "tree"], of=5)
    assert (found.of, found.records, found.right) == (5, 3, 1)
    losses = {
        7: -np.log([0.9, 0.8]).mean(),
        8: -np.log([0.2, 0.9]).mean(),
        9: -np.log([0.25, 0.75]).mean(),
    }
    assert found.worst == [
        TagMiss(8, [], [("sky", pytest.approx(0.8))], pytest.approx(losses[8])),
        TagMiss(9, [("sky", 0.25)], [], pytest.approx(losses[9])),
        TagMiss(7, [], [], pytest.approx(losses[7])),
    ]


def test_the_largest_errors_and_first_those_that_are_no_numbers():
    predicted = np.array([1.5, 5.0, np.nan, -2.0])
    found = describe_values_off(np.arange(4), np.array([1.0, 2.0, 3.0, -1.0]), predicted, of=4)
    assert [(miss.row, miss.error) for miss in found.worst] == [
        *((2, np.inf), (1, 3.0), (3, 1.0), (0, 0.5)),
    ]
    assert found.worst[1] == ValueMiss(1, 2.0, 5.0, 3.0) and found.right is None


def test_of_many_images_only_the_worst_are_listed():
    found = describe_values_off(np.arange(40), np.zeros(40), np.arange(40.0), of=90)
    assert [miss.row for miss in found.worst] == list(range(39, 27, -1))
    assert (found.of, found.records) == (90, 40)
