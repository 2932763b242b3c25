import numpy as np
import pytest

from image_pipeline.components.evaluation.intervals import wilson_interval
from image_pipeline.report.evaluation import (
    Confusion,
    describe_metrics,
    describe_predictions,
)
from image_pipeline.show.own_figures import read_figures
from tests.pipeline.report.conftest import EVALUATION

pytestmark = pytest.mark.beam


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


def test_predictions_are_those_that_evaluation_made(run, run_data):
    own = read_figures(run.artifact("evaluation"))
    found = describe_predictions(own, run_data)
    records, cats = own["records"], run.manifest.books.classes["eval"]["cat"]
    assert found.records == records == run.manifest.splits["eval"].records
    # Both classes get one half, and the first of equal ones is predicted.
    assert found.names == ["cat", "dog"] and found.matrix == [[cats, 0], [records - cats, 0]]
    assert found.confused == [Confusion("dog", "cat", records - cats)]
    eval_rows = np.flatnonzero(run_data.split == run_data.splits.index("eval"))
    assert {each.row for each in found.worst} <= set(eval_rows.tolist())
    for each in found.worst:
        assert each.loss == pytest.approx(np.log(2)) and each.probability == 0.5
        assert each.label == run_data.say_label(each.row)
    assert [each["records"] for each in found.calibration] == [records]


def test_the_matrix_is_sorted_by_name_and_only_shown_of_few_classes(run, run_data):
    own = read_figures(run.artifact("evaluation")) | {"worst": []}
    few = own | {"names": ["dog", "cat"], "matrix": [[0, 1], [2, 3]], "confusions": [[1, 0, 2]]}
    found = describe_predictions(few, run_data)
    assert found.matrix == [[3, 2], [1, 0]] and found.confused == [Confusion("cat", "dog", 2)]
    many = own | {"names": [f"{number:02d}" for number in range(26)], "matrix": [[0] * 26] * 26}
    assert describe_predictions(many | {"confusions": []}, run_data).matrix is None


def test_records_are_found_by_their_ids(run_data):
    ids = [each.tobytes().hex() for each in run_data.index.record_id]
    assert run_data.find_ids([ids[3], ids[1], "0" * 32]) == {ids[3]: 3, ids[1]: 1}
    assert run_data.find_ids([]) == {}
