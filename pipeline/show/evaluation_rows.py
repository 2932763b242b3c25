"""What a model is worth, in lines of the terminal."""

from collections.abc import Mapping
from typing import Any

from image_pipeline.show.judgement import count_right
from image_pipeline.show.metrics import IN_WORDS
from image_pipeline.show.words import format_estimate, format_measured

_WAY_OUT = "look at the first ones, and correct the table or the folders that labels come from"
_TOO_WEAK = "weak models doubt many labels that are right; make the model better first"
WEAK = 0.8
"""Judges that give less than this share of the labels doubt many that are right."""


def evaluation_rows(evaluation: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each figure with its interval, and what it is to be compared with."""
    bounds = (evaluation.get("intervals") or {}).get("overall", {})
    rows = [
        (f"eval {name}", format_measured(value, bounds.get(name)))
        for name, value in evaluation["overall"].items()
    ]
    if constant := evaluation.get("constant"):
        measure = evaluation["measure"]
        text = f"{measure} {constant['value']:.4g}, if the answer is always {constant['answer']}"
        rows.append(("without a model", text))
    if worst := evaluation["worst_class"]:
        interval = (worst["low"], worst["high"]) if "low" in worst else None
        measure = IN_WORDS[evaluation.get("measure", "accuracy")].of_class
        text = format_measured(worst[measure], interval)
        if "records" in worst:
            text += f": {count_right(worst[measure], worst['records'])}"
        if mistake := evaluation.get("mistakes", {}).get(worst["class"]):
            text += f": {say_mistake(mistake)}"
        rows.append(("weakest class", f"{worst['class']}, {measure} {text}"))
    rows += [_say_slice(name, each) for name, each in evaluation.get("slices", {}).items() if each]
    if compared := evaluation.get("compared"):
        rows.append(("against the last model", say_compared(compared)))
    if found := evaluation.get("mislabelled"):
        rows.append(("labels in doubt", _say_doubt(found)))
    return rows


def say_mistake(mistake: Mapping[str, Any]) -> str:
    """What is wrong with a class's masks or boxes, as `evaluated.read_evaluation` found it."""
    if "found" in mistake:
        return f"{mistake['found']:.0%} of its boxes are found"
    return f"{mistake['share']:.0%} of its pixels are taken for {mistake['taken_for']}"


def find_interval(evaluation: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of the figure that models are judged by, if it is known."""
    bounds = (evaluation.get("intervals") or {}).get("overall", {})
    return bounds.get(evaluation.get("measure", "accuracy"))


def say_compared(compared: Mapping[str, Any]) -> str:
    """How much better a model is than the last one, and whether that may be chance."""
    gained = compared["gained"]
    ends = "" if gained["low"] is None else f" ({gained['low']:+.3f} to {gained['high']:+.3f})"
    return (
        f"accuracy {gained['value']:+.3f}{ends}; {compared['only_new']:,} records are right "
        f"only now, {compared['only_earlier']:,} only before (McNemar's p = "
        f"{compared['p_value']:.2g})"
    )


def _say_doubt(found: Mapping[str, Any]) -> str:
    """How many labels are in doubt, and what to do about them."""
    text = f"{found['suspected']:,} of {found['judged']:,}"
    agreed = f"{text}, by models that give {found['agreed']:.0%} of the labels"
    if not found["suspected"]:
        return agreed
    way_out = _TOO_WEAK if found["agreed"] < WEAK else _WAY_OUT
    return f"{agreed}, in {found['path']}: {way_out}"


def _say_slice(name: str, rows: list[Mapping[str, Any]]) -> tuple[str, str]:
    """The ends of a slice: where the figure is lowest, and where it is highest."""
    figure = next(key for key in rows[0] if isinstance(rows[0][key], Mapping))
    known = [row for row in rows if row[figure]["value"] is not None]
    ordered = sorted(known, key=lambda row: row[figure]["value"]) or rows[:1]
    ends = ordered if len(ordered) == 1 else [ordered[0], ordered[-1]]
    said = (f"{row['value']} {format_estimate(row[figure])} of {row['records']:,}" for row in ends)
    return f"by {name}", f"{figure} {' … '.join(said)}"
