import json

import pytest

from image_pipeline.api import read_score
from image_pipeline.components.errors import UserError
from image_pipeline.show.evaluation_rows import evaluation_rows, find_interval
from image_pipeline.show.judgement import explain_doubt
from image_pipeline.show.own_figures import add_figures

pytestmark = pytest.mark.unit


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high}


HALF = estimate(0.5, 0.25, 0.75)
FIGURES = {
    **{"task": "tagging", "records": 8},
    "overall": {"accuracy": estimate(0.75, 0.5, 0.875), "loss": estimate(1.5, 1.25, 2.0)},
    "classes": [
        {"name": "cat", "records": 4, "precision": HALF, "recall": HALF, "F1": HALF},
    ],
    "constant": {"answer": "cat", "value": 0.5},
    "slices": {
        "camera": [
            {"value": "x", "records": 3, "accuracy": estimate(1.0, 0.5, 1.0), "constant": 1.0},
            {"value": "y", "records": 5, "accuracy": estimate(0.5, 0.25, 0.75), "constant": 0.6},
        ]
    },
    "mislabelled": {"judged": 20, "of": 20, "agreed": 0.9, "suspected": 2},
}
MEASURED = {
    "overall": {"accuracy": 0.75, "records": 8.0},
    "classes": {"cat": 0.5},
    "intervals": None,
    "worst_class": None,
}


def test_what_tfma_measured_gets_intervals_and_what_it_is_compared_with(tmp_path):
    (tmp_path / "figures.json").write_text(json.dumps(FIGURES))
    found = add_figures(MEASURED, str(tmp_path))
    assert found["score"] == 0.75 and found["measure"] == "accuracy"
    assert found["intervals"] == {
        "method": "Wilson",
        "overall": {"accuracy": (0.5, 0.875), "loss": (1.25, 2.0)},
        "classes": {"cat": (0.25, 0.75)},
    }
    assert find_interval(found) == (0.5, 0.875)
    rows = dict(evaluation_rows(found))
    assert rows["eval accuracy"] == "0.750 (0.500 to 0.875)"
    assert rows["without a model"] == "accuracy 0.5, if the answer is always cat"
    assert rows["by camera"] == (
        "accuracy y 0.500 (0.250 to 0.750) of 5 … x 1.000 (0.500 to 1.000) of 3"
    )
    assert rows["labels in doubt"].startswith(
        f"2 of 20, by models that give 90% of the labels, in {tmp_path}/mislabelled.csv: look"
    )


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"suspected": 0}, "0 of 20, by models that give 90% of the labels"),
        (
            {"suspected": 9, "agreed": 0.52},
            "9 of 20, by models that give 52% of the labels, in f.csv: weak models doubt many "
            "labels that are right; make the model better first",
        ),
    ],
)
def test_labels_are_to_be_corrected_only_where_a_good_model_doubts_some(told, said):
    found = FIGURES["mislabelled"] | {"path": "f.csv"} | told
    rows = dict(evaluation_rows(MEASURED | {"mislabelled": found}))
    assert rows["labels in doubt"] == said


def test_tfma_s_intervals_stand_beside_those_of_other_figures(tmp_path):
    (tmp_path / "figures.json").write_text(json.dumps(FIGURES))
    jackknife = {"method": "jackknife", "overall": {"accuracy": (0.6, 0.9)}, "classes": {}}
    found = add_figures(MEASURED | {"intervals": jackknife}, str(tmp_path))["intervals"]
    assert found == {
        "method": "jackknife",
        "overall": {"accuracy": (0.6, 0.9), "loss": (1.25, 2.0)},
        "classes": {"cat": (0.25, 0.75)},
    }


def test_what_has_no_figure_or_no_interval_is_told_without(tmp_path):
    nothing = {"value": "png", "records": 3, "F1": estimate(None, None, None)}
    compared = {"gained": estimate(0.0, None, None), "only_new": 0, "only_earlier": 0, "p_value": 1}
    figures = FIGURES | {"slices": {"image/format": [nothing]}, "compared": compared}
    (tmp_path / "figures.json").write_text(json.dumps(figures))
    rows = dict(evaluation_rows(add_figures(MEASURED, str(tmp_path))))
    assert rows["by image/format"] == "F1 png — of 3"
    assert rows["against the last model"].startswith("accuracy +0.000; 0 records are right only")


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (
            {"taken_for": "road", "share": 0.614},
            "pole, IoU 0.1: 61% of its pixels are taken for road",
        ),
        ({"found": 0.125}, "pole, AP50-95 0.1: 12% of its boxes are found"),
    ],
)
def test_what_is_wrong_with_the_weakest_class_is_told(mistake, said):
    measure, each = ("mAP50-95", "AP50-95") if "found" in mistake else ("mean IoU", "IoU")
    worst = {"worst_class": {"class": "pole", each: 0.1}, "mistakes": {"pole": mistake}}
    assert dict(evaluation_rows(MEASURED | worst | {"measure": measure}))["weakest class"] == said


def test_without_figures_there_is_the_score_alone(tmp_path):
    found = add_figures(MEASURED, str(tmp_path))
    assert found["score"] == 0.75 and found["intervals"] is None
    assert [name for name, _ in evaluation_rows(found)] == ["eval accuracy", "eval records"]


@pytest.mark.parametrize(("threshold", "is_told"), [(0.49, False), (0.6, True), (0.9, False)])
def test_a_threshold_within_the_interval_is_told(threshold, is_told):
    bound = {"option": "evaluation.min_accuracy", "threshold": threshold}
    verdict = explain_doubt(bound, (0.5, 0.875), True)
    assert verdict == (
        f"blessed; but evaluation.min_accuracy={threshold} lies within what chance allows, "
        "0.500 to 0.875"
        if is_told
        else "blessed"
    )
    assert explain_doubt(None, None, False) == "not blessed, so not pushed"


def test_a_run_s_score_is_read(tmp_path):
    with pytest.raises(UserError, match=r"must have a summary\.json with evaluation\.score"):
        read_score(str(tmp_path))
    (tmp_path / "summary.json").write_text(
        json.dumps({"evaluation": {"overall": {}, "classes": {}, "score": 0.75}})
    )
    assert read_score(str(tmp_path)) == 0.75
