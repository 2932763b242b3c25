"""What the Evaluator wrote, read from its own files."""

import pytest

from image_pipeline.components.evaluation.evaluation import read_measured, read_metrics
from image_pipeline.components.evaluation.facts import Bound, Failure
from image_pipeline.components.evaluation.metrics import METRICS, Estimate
from tests.evaluation.test_evaluation import analyse, export_dir  # noqa: F401  (a fixture)

pytestmark = pytest.mark.beam


def test_bounds_stay_where_the_figure_can_be_and_no_number_is_left_out():
    def bounded(value, low, high):
        return {"boundedValue": {"value": value, "lowerBound": low, "upperBound": high}}

    found = read_metrics(
        {
            "sparse_categorical_accuracy": bounded(0.98, 0.95, 1.01),
            "sparse_categorical_accuracy_diff": bounded(0.02, -0.03, 0.07),
            "example_count": {"doubleValue": 8.0},
            "loss": {"doubleValue": "NaN"},
            "other": bounded(0.5, "NaN", "NaN"),
        }
    )
    assert found == {
        "accuracy": Estimate(0.98, 0.95, 1.0),
        "accuracy gained": Estimate(0.02, -0.03, 0.07),
        "records": Estimate(8.0),
        "other": Estimate(0.5),
    }


@pytest.mark.wide
@pytest.mark.parametrize("flag", [False, True])
def test_the_evaluators_files_are_read_with_and_without_intervals(export_dir, tmp_path, flag):  # noqa: F811
    analyse(export_dir, tmp_path, confidence_intervals=flag, min_accuracy=0.8)
    found = read_measured(str(tmp_path / "out"))
    assert found.metric is METRICS["sparse_categorical_accuracy"]
    accuracy = found.overall["accuracy"]
    assert accuracy.value == pytest.approx(0.75) and found.overall["records"].value == 4.0
    assert {name: own["accuracy"].value for name, own in found.classes.items()} == {
        "cat": 1.0,
        "dog": 0.0,
    }
    assert found.bound == Bound(option="evaluation.min_accuracy", threshold=0.8)
    missed = {"option": "evaluation.min_accuracy", "threshold": 0.8, "measure": "accuracy"}
    assert found.failures == [Failure(**missed, measured=accuracy.value)]
    assert (accuracy.interval is not None) is flag
    if flag:
        assert 0 <= accuracy.low <= 0.75 <= accuracy.high <= 1
