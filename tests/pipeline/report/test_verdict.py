import dataclasses

import pytest

from image_pipeline.report.evaluation import ClassAccuracy, Metrics
from image_pipeline.report.verdict import describe_verdict
from image_pipeline.show.judgement import explain_worth

pytestmark = pytest.mark.unit

METRICS = Metrics(
    **{"records": 8, "metrics": {}, "accuracy": 0.75, "interval": (0.41, 0.93)},
    **{"method": "Wilson", "blessed": True, "classes": []},
    constant={"answer": "cat", "value": 0.5},
)
CLASSES = [ClassAccuracy("anger", 40, 0.3, (0.2, 0.4)), ClassAccuracy("joy", 60, 0.9, None)]
SUMMARY = {
    "evaluation": {"bound": {"option": "evaluation.min_accuracy", "threshold": 0.25}},
    "paths": {"pushed_model": "any"},
}


def test_a_pushed_model_and_what_it_is_held_against():
    verdict = describe_verdict(SUMMARY, METRICS)
    assert verdict.said == "Not told from guessing. Good enough, and pushed." and verdict.is_good
    assert (verdict.value, verdict.interval, verdict.records) == (0.75, (0.41, 0.93), 8)
    assert verdict.always == (0.5, "cat")
    assert verdict.bound == (0.25, "evaluation.min_accuracy")
    assert verdict.most == 1.0


def test_a_bound_within_chance_is_said():
    near = SUMMARY | {"evaluation": {"bound": {"option": "any", "threshold": 0.5}}}
    said = describe_verdict(near, METRICS).said
    assert "Good enough, and pushed; but any=0.5 lies within what chance allows" in said


def test_a_model_that_was_not_pushed_says_why():
    stopped = describe_verdict(SUMMARY | {"paths": {"pushed_model": None}}, METRICS)
    assert stopped.said.endswith("Good enough; this run pushed no model.")
    missed = {"option": "evaluation.min_accuracy", "threshold": 0.9, "measured": 0.75}
    bad = describe_verdict(
        SUMMARY | {"failures": [missed]},
        dataclasses.replace(METRICS, blessed=False, interval=(0.6, 0.85), classes=CLASSES),
    )
    assert not bad.is_good
    assert bad.said == (
        "Better than guessing, not yet good. Not pushed: its accuracy is 0.75, but "
        "evaluation.min_accuracy asks for at least 0.9. Of the weakest class, anger, 12 of 40 are "
        "right."
    )


@pytest.mark.parametrize(
    ("measure", "interval", "good", "worth"),
    [
        ("accuracy", (0.51, 0.6), True, "Better than guessing"),
        ("accuracy", (0.51, 0.6), False, "Better than guessing, not yet good"),
        ("accuracy", (0.5, 0.6), True, "Not told from guessing"),
        ("accuracy", (0.3, 0.49), False, "Worse than guessing"),
        ("mean squared error", (0.3, 0.49), True, "Better than guessing"),
        ("mean squared error", (0.51, 0.6), True, "Worse than guessing"),
        ("accuracy", None, True, ""),
    ],
)
def test_a_figure_is_worth_what_guessing_does_not_reach(measure, interval, good, worth):
    assert explain_worth(measure, interval, 0.5, good) == worth
    assert explain_worth(measure, interval, None, good) == ""


def test_errors_are_drawn_up_to_the_greatest_known_value():
    errors = dataclasses.replace(
        METRICS, measure="mean squared error", accuracy=2.0, interval=None, constant=None
    )
    verdict = describe_verdict({**SUMMARY, "evaluation": {}}, errors)
    assert (verdict.most, verdict.bound, verdict.always) == (2.0, None, None)
