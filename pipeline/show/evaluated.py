"""What TFX's Evaluator measured, overall and by class, with confidence intervals."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.extras import need
from image_pipeline.components.messages import describe_error
from image_pipeline.show.metrics import IN_WORDS, METRICS
from image_pipeline.show.own_figures import add_figures

# Readable names for TFMA's metrics, those that a task measures.
_SHORT = {name: each.words for name, each in METRICS.items()} | {"example_count": "records"}
_SHORT |= {f"{name}_diff": f"{each.words} gained" for name, each in METRICS.items()}
# A figure lies between these, whatever an estimate says.
_LIMITS = {each.words: (0.0, 1.0) for each in METRICS.values() if each.is_share}
_LIMITS |= {f"{words} gained": (-1.0, 1.0) for words in _LIMITS}

T = TypeVar("T")
Interval = tuple[float, float]


def read_evaluation(
    evaluation_dir: str, names: Sequence[str] | None = None, measure: str = "mean IoU"
) -> dict[str, Any]:
    """Reads what TFMA wrote.

    Args:
      evaluation_dir: the Evaluator's output.
      names: of masks, boxes and tags, the classes in the order of their ids; none of values.
      measure: what such models are judged by.

    Returns:
      `overall`: each metric's value; `classes`: each class's accuracy; `worst_class`: its `class`,
      `accuracy`, `records` and, where it was estimated, `low` and `high`: that with the lowest
      lower bound, or without bounds the lowest accuracy (None if there is no class). `intervals`:
      None, or `overall` and `classes` as above with pairs of a lower and an upper bound (95 %). Of
      masks, boxes and tags, a class's figure is its IoU, AP50-95 or F1, under that name. `measure`
      says what models are judged by. `mistakes`, of masks and boxes: by class, the other that most
      of its wrong pixels are `taken_for`, and the `share` of its pixels that is; or the share of
      its boxes that is `found`. What else there is: see `own_figures.add_figures`.
    """
    need("tfx", "Reading an evaluation")
    import tensorflow_model_analysis as tfma

    def load() -> dict[tuple, Any]:
        judged = _find_judged(evaluation_dir)
        result = tfma.load_eval_result(evaluation_dir, model_name=judged)
        return {key: metrics[""] for key, metrics in result.slicing_metrics}

    slices = load_evaluation(evaluation_dir, load)
    values, bounds = _read_metrics(slices.get((), {}).get("", {}))
    if names is None:
        by_class = {key[0][1]: _read_metrics(own[""]) for key, own in slices.items() if key}
    else:
        by_class = _read_by_id(slices.get((), {}), names)
    each = "accuracy" if names is None else IN_WORDS[measure].of_class
    classes = {name: own[each] for name, (own, _) in by_class.items() if each in own}
    class_bounds = {name: own[each] for name, (_, own) in by_class.items() if each in own}
    estimated = {"method": "jackknife", "overall": bounds, "classes": class_bounds}
    found: dict[str, Any] = {
        "measure": "accuracy" if names is None else measure,
        **{"overall": values, "classes": classes},
        "intervals": estimated if bounds or class_bounds else None,
    }
    if mistakes := _find_mistakes({name: own for name, (own, _) in by_class.items()}, names or ()):
        found["mistakes"] = mistakes
    found = add_figures(found, evaluation_dir)
    worst = find_worst(classes, class_bounds, each)
    if worst is not None and found["intervals"] is not None:
        worst |= _name_ends(found["intervals"]["classes"].get(worst["class"]))
    if worst is not None and names is None:
        worst["records"] = round(by_class[worst["class"]][0]["records"])
    return {**found, "worst_class": worst}


def load_evaluation(evaluation_dir: str, load: Callable[[], T]) -> T:
    """Calls TFMA to load files of an evaluation.

    Raises:
      UserError: if they are damaged.
    """
    try:
        return load()
    except Exception as error:  # Of a damaged file, TFMA raises many kinds.
        raise explain_shortage(error) or UserError(
            f"the evaluation in {evaluation_dir!r} cannot be read: {describe_error(error)}; run "
            "again from the Evaluator on."
        ) from error


def _read_by_id(
    metrics: Mapping[str, Any], names: Sequence[str]
) -> dict[str, tuple[dict[str, float], dict[str, Interval]]]:
    """The figures of the classes that occur, which TFMA keeps by the class's id."""
    keys = {f"classId:{number}": name for number, name in enumerate(names)}
    return {name: _read_metrics(metrics[key]) for key, name in keys.items() if key in metrics}


def _find_mistakes(
    by_class: Mapping[str, Mapping[str, float]], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """What masks' classes are taken for, and how many boxes are found, where it was measured."""
    mistakes: dict[str, dict[str, Any]] = {}
    for name, own in by_class.items():
        if "mistaken" in own and (other := int(own["taken_for"])) < len(names):
            mistakes[name] = {"taken_for": names[other], "share": own["mistaken"]}
        elif "found_50" in own:
            mistakes[name] = {"found": own["found_50"]}
    return mistakes


def find_worst(
    classes: Mapping[str, float], bounds: Mapping[str, Interval], measure: str = "accuracy"
) -> dict[str, Any] | None:
    """The class that may be the worst, by its lower bound, which is low for few records.

    Args:
      classes: each class's figure.
      bounds: intervals of the classes for which they were estimated.
      measure: what the figure is.
    """

    def rank(name: str) -> tuple[float, float, str]:
        return bounds[name][0] if name in bounds else classes[name], classes[name], name

    worst = min(classes, key=rank, default=None)
    if worst is None:
        return None
    told = {"class": worst, measure: classes[worst]}
    return told | _name_ends(bounds.get(worst))


def _name_ends(interval: Interval | None) -> dict[str, Any]:
    return {} if interval is None else {"low": interval[0], "high": interval[1]}


def _read_metrics(
    metrics: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, float], dict[str, Interval]]:
    """The values of a slice's metrics that are numbers, and the bounds of those that have them."""
    values: dict[str, float] = {}
    bounds: dict[str, Interval] = {}
    for long_name, metric in metrics.items():
        if long_name == "example_count_diff":  # of the same records
            continue
        name = _SHORT.get(long_name, long_name)
        bounded = metric.get("boundedValue")
        value = float(metric.get("doubleValue", math.nan) if bounded is None else bounded["value"])
        if not math.isfinite(value):
            continue
        values[name] = value
        if bounded is not None:
            low, high = (float(bounded.get(end, math.nan)) for end in ("lowerBound", "upperBound"))
            if math.isfinite(low) and math.isfinite(high):
                least, most = _LIMITS.get(name, (-math.inf, math.inf))
                bounds[name] = (max(low, least), min(high, most))
    return values, bounds


def _find_judged(evaluation_dir: str) -> str | None:
    """TFMA's name for the trained model, if another one was measured with it."""
    from tensorflow_model_analysis.writers import eval_config_writer

    from image_pipeline.components.evaluation.evaluation import CANDIDATE

    *_, locations = eval_config_writer.load_eval_run(evaluation_dir)
    return CANDIDATE if len(locations) > 1 else None
