import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.report.evaluation import (
    Confusion,
    describe_metrics,
    describe_predictions,
    score_split,
    wilson_interval,
)
from tests.pipeline.report.conftest import EVALUATION

pytestmark = pytest.mark.beam


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


def test_without_records_anything_is_possible():
    assert wilson_interval(0, 0) == (0, 1)


def test_metrics_have_their_chances_and_the_weakest_class_is_first():
    summary = {"evaluation": EVALUATION, "blessed": True}
    metrics = describe_metrics(summary, {"cat": 4, "dog": 4})
    assert (metrics.records, metrics.accuracy, metrics.blessed) == (8, 0.75, True)
    assert metrics.interval == wilson_interval(6, 8)
    assert [(row.name, row.records, row.interval) for row in metrics.classes] == [
        ("dog", 4, wilson_interval(2, 4)),
        ("cat", 4, wilson_interval(4, 4)),
    ]


def test_masks_have_pixels_for_records_and_chances_only_if_they_were_estimated():
    evaluation = {
        "measure": "mean IoU",
        "overall": {"mean IoU": 0.5, "pixel accuracy": 0.9, "records": 8.0},
        "classes": {"sky": 0.75, "pole": 0.25},
        "intervals": None,
    }
    metrics = describe_metrics(
        {"evaluation": evaluation, "blessed": True}, {"sky": 900, "pole": 100}
    )
    assert (metrics.measure, metrics.accuracy, metrics.interval) == ("mean IoU", 0.5, None)
    assert metrics.metrics == {"mean IoU": 0.5, "pixel accuracy": 0.9}
    assert [(row.name, row.records, row.accuracy, row.interval) for row in metrics.classes] == [
        ("pole", 100, 0.25, None),
        ("sky", 900, 0.75, None),
    ]


def test_the_evaluators_own_intervals_are_told_and_the_lowest_bound_is_first():
    intervals = {
        "overall": {"accuracy": [0.6, 0.9]},
        "classes": {"cat": [0.4, 1.0], "dog": [0.45, 0.55]},
    }
    summary = {"evaluation": EVALUATION | {"intervals": intervals}, "blessed": True}
    metrics = describe_metrics(summary, {"cat": 4, "dog": 4})
    assert (metrics.interval, metrics.method) == ([0.6, 0.9], "jackknife")
    assert [(row.name, row.interval) for row in metrics.classes] == [
        ("cat", [0.4, 1.0]),
        ("dog", [0.45, 0.55]),
    ]


def test_an_evaluation_without_a_record_of_a_known_class_has_no_accuracy():
    nothing = {"overall": {}, "classes": {}, "worst_class": None, "intervals": None}
    metrics = describe_metrics({"evaluation": nothing, "blessed": False}, {"zebra": 4})
    assert (metrics.records, metrics.accuracy, metrics.interval) == (0, None, None)


def test_predictions_confusions_and_the_highest_losses():
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.75, 0.25], [0.6, 0.4], [1.0, 0.0]])
    labels = np.array([0, 1, 1, -1, 1])
    found = describe_predictions(np.arange(10, 15), labels, probabilities, ["dog", "cat"], of=5)
    assert (found.records, found.unknown, found.right) == (4, 1, 2)
    # By name: cat, dog; a row a label.
    assert found.names == ["cat", "dog"] and found.matrix == [[1, 2], [0, 1]]
    assert found.confused == [Confusion("cat", "dog", 2)]
    assert [each.row for each in found.worst] == [14, 12, 11, 10]
    first, second = found.worst[:2]
    assert first.loss == pytest.approx(-np.log(1e-7))
    assert second.loss == pytest.approx(-np.log(0.25))
    assert (second.label, second.prediction) == ("cat", "dog")
    assert (second.probability, second.label_probability) == (0.75, 0.25)


def test_many_classes_have_confusions_but_no_matrix():
    names = [f"{number:02d}" for number in range(26)]
    found = describe_predictions(np.arange(26), np.arange(26), np.roll(np.eye(26), 1, 1), names, 26)
    assert found.matrix is None and found.right == 0
    assert found.confused[0] == Confusion("00", "01", 1)
    assert len(found.confused) == len(found.worst) == 12


def test_the_model_is_run_over_the_eval_split(run, run_data):
    records = run.manifest.splits["eval"].records
    cats = run.manifest.books.classes["eval"]["cat"]
    model_dir = f"{run.artifact('model')}/Format-Serving"
    found = score_split(run_data, model_dir, ["cat", "dog"])
    # Both classes get one half, and the first of equal ones is predicted.
    assert (found.of, found.records, found.right) == (records, records, cats)
    assert all(each.loss == pytest.approx(np.log(2)) for each in found.worst)
    some = score_split(run_data, model_dir, ["cat", "dog"], most=3)
    assert (some.of, some.records) == (records, 3)
    eval_rows = np.flatnonzero(run_data.split == run_data.splits.index("eval"))
    assert {each.row for each in some.worst} <= set(eval_rows.tolist())


def test_a_split_without_records_is_refused(run_data):
    with pytest.raises(UserError, match="the split test must have records"):
        score_split(run_data, "no-model", ["cat"], split="test")
