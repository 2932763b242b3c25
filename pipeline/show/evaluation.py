"""What a model is worth, in words: for the terminal and for the page."""

from collections.abc import Iterator

from image_pipeline.components import files
from image_pipeline.components.evaluation.facts import (
    MISLABELLED,
    ClassFacts,
    Compared,
    Evaluation,
    Mislabelled,
    Slice,
)
from image_pipeline.show.words import format_estimate

_WAY_OUT = "look at the first ones, and correct the table or the folders that labels come from"
_TOO_WEAK = "weak models doubt many labels that are right; make the model better first"
_UNEVEN = 5  # times as many records as the weakest class has
_WEAK = 0.8  # Judges that give less than this share of the labels doubt many that are right.


def evaluation_rows(found: Evaluation, evaluation_dir: str | None) -> Iterator[tuple[str, str]]:
    """Each figure with its interval, what it is to be compared with, and the verdict."""
    for name, figure in found.metrics.items():
        yield f"eval {name}", format_estimate(figure)
    yield "eval records", f"{found.records:,}"
    if found.constant:
        constant = found.constant
        text = f"{found.measure} {constant.value:.4g}, if the answer is always {constant.answer}"
        yield "without a model", text
    if found.classes:
        weakest = found.classes[0]
        text = f"{weakest.name}, {found.metric.of_class} {format_estimate(weakest.figure)}"
        detail = say_class(found, weakest)
        yield f"weakest {name_class(found)}", f"{text}: {detail}" if detail else text
    for column, rows in found.slices.items():
        if rows:
            yield f"by {column}", f"{found.measure} {_say_ends(rows)}"
    if found.compared:
        yield "against the last model", say_compared(found.compared)
    if found.mislabelled:
        yield "labels in doubt", _say_doubt(found.mislabelled, evaluation_dir)
    worth = say_worth(found)
    verdict = "blessed" if found.blessed else "not blessed, so not pushed"
    line = "; ".join([verdict, *say_chance(found)])
    yield "model", f"{worth.lower()}; {line}" if worth else line


def say_verdict(found: Evaluation, is_pushed: bool) -> str:
    """What the figure is worth, the verdict, and the class that is worst known, in sentences."""
    sentences = [say_worth(found)]
    if found.blessed:
        verdict = (
            "Good enough, and pushed" if is_pushed else "Good enough; this run pushed no model"
        )
        sentences.append("; ".join([verdict, *say_chance(found)]))
    else:
        sentences.append(f"Not pushed: {_say_failures(found)}")
    if found.classes and (detail := say_class(found, found.classes[0])):
        sentences.append(f"Of the weakest {name_class(found)}, {found.classes[0].name}, {detail}")
    sentences.append(say_next(found))
    return " ".join(f"{each}." for each in sentences if each)


def rate(found: Evaluation) -> str:
    """How the page shows a verdict: "bad"; "fair" of one that leaves doubts; "good"."""
    if not found.blessed:
        return "bad"
    is_better = say_worth(found) in ("", "Better than guessing")  # "": nobody can tell
    has_none = any(row.records and row.figure.value == 0 for row in found.classes)
    return "good" if is_better and not has_none else "fair"


def say_next(found: Evaluation) -> str:
    """What may make a better model, the likeliest first; "" where nothing asks for it."""
    doubts, steps = found.mislabelled, []
    if doubts and doubts.suspected and not is_weak(doubts):
        steps.append(f"look at the labels in doubt ({doubts.suspected:,})")
    weakest, most = found.classes[:1], max((row.records for row in found.classes), default=0)
    if weakest and found.task == "classification" and weakest[0].records * _UNEVEN < most:
        steps.append(f"more images of {weakest[0].name}, or training.class_weights=balanced")
    if rate(found) != "good":
        steps.append("more images or epochs (training.epochs), or other weights (training.weights)")
    return f"Next: {'; '.join(steps)}" if steps else ""


def say_refusal(found: Evaluation, model_dir: str | None) -> str:
    """Why a model was not pushed, and where it is, if that is known."""
    where = f" The model is in {model_dir}." if model_dir else ""
    return f"The model was not pushed: {_say_failures(found)}.{where}"


def say_worth(found: Evaluation) -> str:
    """Whether the score is more than chance makes of answering always the same.

    Returns:
      As a sentence begins; "" where nothing is known.
    """
    interval = found.score.interval
    if interval is None or found.constant is None:
        return ""
    (low, high), always = interval, found.constant.value
    if not found.metric.is_share:
        low, high, always = -high, -low, -always
    if low <= always <= high:
        return "Not told from guessing"
    if low > always:
        return "Better than guessing" + ", not yet good" * (not found.blessed)
    return "Worse than guessing"


def say_chance(found: Evaluation) -> list[str]:
    """Whether chance alone could have turned the verdict; nothing if not."""
    bound, interval = found.bound, found.score.interval
    if bound is None or interval is None or not interval[0] <= bound.threshold <= interval[1]:
        return []
    return [
        f"but {bound.option}={bound.threshold:.4g} lies within what chance allows, "
        f"{interval[0]:.3f} to {interval[1]:.3f}"
    ]


def say_class(found: Evaluation, row: ClassFacts) -> str:
    """How many of a class's records are right, and what it is taken for; "" if unknown."""
    parts, value = [say_mistake(row, found.metric.counted)], row.figure.value
    if found.measure == "accuracy" and value is not None:
        parts.insert(0, f"{round(value * row.records):,} of {row.records:,} are right")
    return ", ".join(filter(None, parts))


def say_mistake(row: ClassFacts, counted: str) -> str:
    """What a class is taken for, or how many of its boxes are found; "" if neither is known."""
    mistake = row.mistake
    if mistake is None:
        return ""
    if mistake.found is not None:
        return f"{mistake.found:.0%} of its boxes are found"
    return f"{mistake.share:.0%} of its {counted} are taken for {mistake.taken_for}"


def name_class(found: Evaluation) -> str:
    """What a class is called."""
    return "tag" if found.task == "tagging" else "class"


def say_compared(compared: Compared) -> str:
    """How much better a model is than the last one, and whether that may be chance."""
    gained = compared.gained
    ends = "" if gained.interval is None else " ({:+.3f} to {:+.3f})".format(*gained.interval)
    return (
        f"accuracy {gained.value:+.3f}{ends}; {compared.only_new:,} records are right only now, "
        f"{compared.only_earlier:,} only before (McNemar's p = {compared.p_value:.2g})"
    )


def is_weak(found: Mislabelled) -> bool:
    """Whether the models that judged labels doubt many that are right."""
    return found.agreed < _WEAK


def _say_failures(found: Evaluation) -> str:
    reasons = []
    for failure in found.failures:
        side = "most" if failure.option.startswith("evaluation.max_") else "least"
        name = f"its {failure.measure}"
        if failure.option.endswith("min_improvement"):
            name = f"the {failure.measure} gained over the latest model that was pushed"
        asked = f"{failure.option} asks for at {side} {failure.threshold:.4g}"
        if failure.measured is None:
            reasons.append(f"{name} could not be measured")
        else:
            reasons.append(f"{name} is {failure.measured:.4g}, but {asked}")
    return "; ".join(reasons) or "its Evaluator did not bless it"


def _say_doubt(found: Mislabelled, evaluation_dir: str | None) -> str:
    """How many labels are in doubt, and what to do about them."""
    text = f"{found.suspected:,} of {found.judged:,}"
    agreed = f"{text}, by models that give {found.agreed:.0%} of the labels"
    if not found.suspected:
        return agreed
    path = files.join(evaluation_dir, MISLABELLED) if evaluation_dir else MISLABELLED
    return f"{agreed}, in {path}: {_TOO_WEAK if is_weak(found) else _WAY_OUT}"


def _say_ends(rows: list[Slice]) -> str:
    """The ends of a slice: where the figure is lowest, and where it is highest."""
    known = [(row.figure.value, row) for row in rows if row.figure.value is not None]
    ordered = [row for _, row in sorted(known, key=lambda each: each[0])] or rows[:1]
    ends = ordered if len(ordered) == 1 else [ordered[0], ordered[-1]]
    return " … ".join(
        f"{row.value} {format_estimate(row.figure)} of {row.records:,}" for row in ends
    )
