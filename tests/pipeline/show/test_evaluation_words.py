import dataclasses

import pytest

from image_pipeline.api import read_score
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import (
    Bound,
    ClassFacts,
    Compared,
    Failure,
    Mistake,
    Slice,
    write_evaluation,
)
from image_pipeline.components.evaluation.metrics import Estimate
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.report.charts import draw_score
from image_pipeline.show.evaluation import (
    evaluation_rows,
    rate,
    say_chance,
    say_refusal,
    say_verdict,
    say_worth,
)
from tests.evaluation.found import FOUND, HALF

pytestmark = pytest.mark.unit


def change(found=FOUND, **changes):
    return found.model_copy(update=changes)


def test_figures_are_told_with_what_they_are_compared_with():
    rows = dict(evaluation_rows(FOUND, "out/evaluation"))
    assert rows["eval accuracy"] == "0.750 (0.410 to 0.930)" and rows["eval records"] == "8"
    assert rows["without a model"] == "accuracy 0.5, if the answer is always dog"
    assert rows["weakest class"] == "cat, accuracy 0.500 (0.250 to 0.750): 2 of 4 are right"
    assert rows["by camera"] == (
        "accuracy y 0.500 (0.250 to 0.750) of 5 … x 1.000 (0.500 to 1.000) of 3"
    )
    assert rows["labels in doubt"] == (
        "2 of 20, by models that give 90% of the labels, in out/evaluation/mislabelled.csv: look "
        "at the first ones, and correct the table or the folders that labels come from"
    )
    assert rows["model"] == "not told from guessing; blessed"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"suspected": 0}, "0 of 20, by models that give 90% of the labels"),
        (
            {"suspected": 9, "agreed": 0.52},
            "9 of 20, by models that give 52% of the labels, in mislabelled.csv: weak models doubt "
            "many labels that are right; make the model better first",
        ),
    ],
)
def test_labels_are_to_be_corrected_only_where_a_good_model_doubts_some(told, said):
    doubts = FOUND.mislabelled.model_copy(update=told)
    assert dict(evaluation_rows(change(mislabelled=doubts), None))["labels in doubt"] == said


def test_what_has_no_figure_or_no_interval_is_told_without():
    nothing = Slice(value="png", records=3, figure=Estimate(None))
    compared = Compared(gained=Estimate(0.0), only_new=0, only_earlier=0, p_value=1.0)
    found = change(slices={"image/format": [nothing]}, compared=compared)
    rows = dict(evaluation_rows(found, None))
    assert rows["by image/format"] == "accuracy png — of 3"
    assert rows["against the last model"].startswith("accuracy +0.000; 0 records are right only")


@pytest.mark.parametrize(
    ("measure", "figure", "mistake", "said"),
    [
        (
            "mean IoU",
            Estimate(0.1),
            Mistake(taken_for="road", share=0.614),
            "pole, IoU 0.1: 61% of its pixels are taken for road",
        ),
        (
            "mAP50-95",
            Estimate(0.1),
            Mistake(found=0.125),
            "pole, AP50-95 0.1: 12% of its boxes are found",
        ),
        (
            "accuracy",
            Estimate(0.25),
            Mistake(taken_for="road", share=0.5),
            "pole, accuracy 0.25: 1 of 4 are right, 50% of its records are taken for road",
        ),
        ("F1", Estimate(0.25), None, "pole, F1 0.25"),
    ],
)
def test_what_is_wrong_with_the_weakest_class_is_told(measure, figure, mistake, said):
    pole = ClassFacts(name="pole", records=4, figure=figure, mistake=mistake)
    found = change(measure=measure, metrics={}, classes=[pole])
    assert dict(evaluation_rows(found, None))["weakest class"] == said


@pytest.mark.parametrize(("threshold", "is_told"), [(0.4, False), (0.6, True), (0.95, False)])
def test_a_threshold_within_the_interval_is_told(threshold, is_told):
    bound = Bound(option="evaluation.min_accuracy", threshold=threshold)
    said = f"but evaluation.min_accuracy={threshold} lies within what chance allows, 0.410 to 0.930"
    assert say_chance(change(bound=bound)) == [said] * is_told
    assert say_chance(change(bound=None)) == []


@pytest.mark.parametrize(
    ("measure", "interval", "good", "worth"),
    [
        ("accuracy", (0.51, 0.6), True, "Better than guessing"),
        ("accuracy", (0.51, 0.6), False, "Better than guessing, not yet good"),
        ("accuracy", (0.5, 0.6), True, "Not told from guessing"),
        ("accuracy", (0.3, 0.49), False, "Worse than guessing"),
        ("mean squared error", (0.3, 0.49), True, "Better than guessing"),
        ("mean squared error", (0.51, 0.6), True, "Worse than guessing"),
        ("accuracy", (None, None), True, ""),
    ],
)
def test_a_figure_is_worth_what_guessing_does_not_reach(measure, interval, good, worth):
    metrics = {measure: Estimate(0.5, *interval)}
    found = change(measure=measure, metrics=metrics, blessed=good)
    assert say_worth(found) == worth and say_worth(change(found, constant=None)) == ""


def test_a_pushed_model_says_what_it_is_worth_and_what_is_next():
    said = say_verdict(FOUND, True)
    assert said == (
        "Not told from guessing. Good enough, and pushed. Of the weakest class, cat, 2 of 4 are "
        "right. Next: look at the labels in doubt (2); more images or epochs (training.epochs), or "
        "other weights (training.weights)."
    )
    assert rate(FOUND) == "fair"
    assert "Good enough; this run pushed no model." in say_verdict(FOUND, False)


def test_a_model_that_is_better_than_guessing_and_knows_each_class_is_good():
    metrics = {"accuracy": Estimate(0.9, 0.8, 0.95)}
    good = change(metrics=metrics, mislabelled=None)
    assert rate(good) == "good" and "Next" not in say_verdict(good, True)
    certain = change(good, metrics={"accuracy": Estimate(1.0)})
    assert rate(certain) == "good" and say_verdict(certain, True).startswith("Good enough")
    classes = [
        ClassFacts(name="emu", records=2, figure=Estimate(0.0)),
        ClassFacts(name="cat", records=40, figure=HALF),
    ]
    uneven = change(good, classes=classes)
    assert rate(uneven) == "fair"
    assert "Next: more images of emu, or training.class_weights=balanced; more images" in (
        say_verdict(uneven, True)
    )


def test_a_model_that_was_not_pushed_says_why():
    missed = Failure(
        option="evaluation.min_accuracy", threshold=0.9, measure="accuracy", measured=0.75
    )
    anger = ClassFacts(name="anger", records=40, figure=Estimate(0.3))
    metrics = {"accuracy": Estimate(0.75, 0.6, 0.85)}
    bad = change(
        **{"blessed": False, "failures": [missed], "metrics": metrics, "classes": [anger]},
        mislabelled=None,
    )
    why = "its accuracy is 0.75, but evaluation.min_accuracy asks for at least 0.9."
    assert say_verdict(bad, False) == (
        f"Better than guessing, not yet good. Not pushed: {why} Of the weakest class, anger, 12 of "
        "40 are right. Next: more images or epochs (training.epochs), or other weights "
        "(training.weights)."
    )
    assert rate(bad) == "bad"
    assert say_refusal(bad, "m") == f"The model was not pushed: {why} The model is in m."
    gained = missed.model_copy(update={"option": "evaluation.min_improvement", "measured": None})
    assert say_refusal(change(bad, failures=[gained]), None) == (
        "The model was not pushed: the accuracy gained over the latest model that was pushed could "
        "not be measured."
    )


def test_errors_are_drawn_up_to_the_greatest_known_value():
    errors = change(measure="mean squared error", metrics={"mean squared error": Estimate(2.0)})
    assert ">2</text>" in draw_score(change(errors, constant=None, bound=None))
    far = Bound(option="evaluation.max_mean_squared_error", threshold=4.0)
    assert ">4</text>" in draw_score(change(errors, bound=far))
    assert ">1</text>" in draw_score(FOUND)


def test_a_run_s_score_is_read(tmp_path):
    with pytest.raises(UserError, match=r"must have a summary\.json that names an evaluation"):
        read_score(str(tmp_path))
    place = "artifacts/Evaluator/evaluation/6"
    summary = {"paths": {"evaluation": f"/elsewhere/{place}"}}
    (tmp_path / "summary.json").write_text(to_sealed_json(summary))
    (tmp_path / place).mkdir(parents=True)
    write_evaluation(str(tmp_path / place), FOUND)
    assert read_score(str(tmp_path)) == 0.75
    write_evaluation(str(tmp_path / place), change(metrics={}))
    with pytest.raises(UserError, match=r"no record of .* could be measured"):
        read_score(str(tmp_path))


def test_an_estimate_is_a_plain_object_of_its_fields():
    assert dataclasses.asdict(HALF) == {"value": 0.5, "low": 0.25, "high": 0.75}
