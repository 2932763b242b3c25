"""What the model is worth, in a few facts: its figure, what it is held against, and the verdict."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from image_pipeline.report.evaluation import Metrics
from image_pipeline.show.judgement import (
    count_right,
    explain_doubt,
    explain_misses,
    explain_worth,
)
from image_pipeline.show.metrics import is_share


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the model is worth.

    Attributes:
      said: whether it was pushed, and if not, why not.
      is_good: whether it was good enough.
      measure: the name of the one figure that models are judged by.
      value, interval: the figure and its 95 % interval, each None if unknown.
      records: of the eval split, by which it was measured.
      always: the figure of the best answer that is always the same, and that answer; None if
        unknown.
      bound: the figure that was asked for, and the option that did; None without any.
      most: the greatest value that the figure can have, or that is of interest.
    """

    said: str
    is_good: bool
    measure: str
    value: float | None
    interval: tuple[float, float] | None
    records: int
    always: tuple[float, str] | None
    bound: tuple[float, str] | None
    most: float


def describe_verdict(summary: Mapping[str, Any], metrics: Metrics) -> Verdict:
    """Puts together what was measured, and what it is held against.

    Args:
      summary: the run's summary.
      metrics: what was measured.
    """
    constant, bound = metrics.constant, summary["evaluation"].get("bound")
    always = None if constant is None else (float(constant["value"]), str(constant["answer"]))
    asked = None if bound is None else (float(bound["threshold"]), str(bound["option"]))
    ends = metrics.interval or ()
    known = [*ends, metrics.accuracy, always and always[0], asked and asked[0]]
    largest = max(each for each in (*known, 0.0) if each is not None)
    return Verdict(
        said=_say(summary, metrics, always and always[0]),
        is_good=metrics.blessed,
        measure=metrics.measure,
        value=metrics.accuracy,
        interval=metrics.interval,
        records=metrics.records,
        always=always,
        bound=asked,
        most=1.0 if is_share(metrics.measure) else largest,
    )


def _say(summary: Mapping[str, Any], metrics: Metrics, always: float | None) -> str:
    """The first line: what the figure is worth, the verdict, and the class that is worst known."""
    sentences = [explain_worth(metrics.measure, metrics.interval, always, metrics.blessed)]
    if not metrics.blessed:
        sentences.append(f"Not pushed: {explain_misses(summary.get('failures', ()))}")
    else:
        doubt = explain_doubt(summary["evaluation"].get("bound"), metrics.interval, True)
        reserve = doubt.partition("; ")[2]
        is_pushed = summary["paths"].get("pushed_model") is not None
        verdict = (
            "Good enough, and pushed" if is_pushed else "Good enough; this run pushed no model"
        )
        sentences.append(f"{verdict}; {reserve}" if reserve else verdict)
    if metrics.measure == "accuracy" and metrics.classes:
        weakest = metrics.classes[0]
        right = count_right(weakest.accuracy, weakest.records)
        sentences.append(f"Of the weakest class, {weakest.name}, {right}")
    return " ".join(f"{each}." for each in sentences if each)
