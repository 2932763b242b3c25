"""What the Evaluator wrote, read from its own files, and how it is told."""

import pytest

from image_pipeline.show.evaluated import (
    _read_metrics,
    find_worst,
    read_evaluation,
)
from image_pipeline.show.words import format_measured
from tests.evaluation.test_evaluation import analyse, export_dir  # noqa: F401  (a fixture)

pytestmark = pytest.mark.beam


def test_a_figure_is_told_with_its_interval():
    assert format_measured(0.4391, (0.415, 0.4639)) == "0.439 (0.415 to 0.464)"
    assert format_measured(0.4391, None) == "0.4391" and format_measured(1598.0, None) == "1,598"
    assert format_measured(10_000.0, None) == "10,000"


def test_the_worst_class_is_that_of_the_lowest_bound():
    classes = {"cat": 0.5, "dog": 0.4, "emu": 0.4}
    assert find_worst(classes, {}) == {"class": "dog", "accuracy": 0.4}
    bounds = {"cat": (0.1, 0.9), "dog": (0.3, 0.5)}
    assert find_worst(classes, bounds) == {
        **{"class": "cat", "accuracy": 0.5},
        **{"low": 0.1, "high": 0.9},
    }
    assert find_worst({}, {}) is None


def test_bounds_stay_where_the_figure_can_be_and_no_number_is_left_out():
    def bounded(value, low, high):
        return {"boundedValue": {"value": value, "lowerBound": low, "upperBound": high}}

    values, bounds = _read_metrics(
        {
            "sparse_categorical_accuracy": bounded(0.98, 0.95, 1.01),
            "sparse_categorical_accuracy_diff": bounded(0.02, -0.03, 0.07),
            "example_count": {"doubleValue": 8.0},
            "loss": {"doubleValue": "NaN"},
            "other": bounded(0.5, "NaN", "NaN"),
        }
    )
    assert values == {"accuracy": 0.98, "accuracy gained": 0.02, "records": 8.0, "other": 0.5}
    assert bounds == {"accuracy": (0.95, 1.0), "accuracy gained": (-0.03, 0.07)}


@pytest.mark.wide
@pytest.mark.parametrize("flag", [False, True])
def test_the_evaluators_files_are_read_with_and_without_intervals(export_dir, tmp_path, flag):  # noqa: F811
    analyse(export_dir, tmp_path, confidence_intervals=flag)
    read = read_evaluation(str(tmp_path / "out"))
    assert read["overall"] == {"accuracy": pytest.approx(0.75), "records": 4.0}
    assert read["classes"] == {"cat": 1.0, "dog": 0.0}
    assert read["worst_class"]["class"] == "dog"
    assert (read["intervals"] is not None) is flag
    if flag:
        low, high = read["intervals"]["overall"]["accuracy"]
        assert 0 <= low <= 0.75 <= high <= 1
