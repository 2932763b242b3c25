"""Why a model was not good enough to be pushed, as recorded by the Evaluator."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components.extras import need
from image_pipeline.show.evaluated import load_evaluation
from image_pipeline.show.metrics import IN_WORDS, METRICS, is_share


def read_failures(evaluation_dir: str) -> list[dict[str, Any]]:
    """The bounds that a model missed.

    Args:
      evaluation_dir: the Evaluator's output.

    Returns:
      For each: the `option` that sets the bound, its `threshold`, and `measured`, which is None
      where the Evaluator had no record to measure it on; and `measure`, if it is not the accuracy.
    """
    need("tfx", "Reading an evaluation")
    import tensorflow_model_analysis as tfma

    result = load_evaluation(evaluation_dir, lambda: tfma.load_validation_result(evaluation_dir))
    failures = [each for part in result.metric_validations_per_slice for each in part.failures]
    return [_describe(failure) for failure in failures]


def read_bound(evaluation_dir: str) -> dict[str, Any] | None:
    """The `option` and the `threshold` that models are judged by; None if there is no bound."""
    return load_evaluation(evaluation_dir, lambda: _find_bound(evaluation_dir))


def _find_bound(evaluation_dir: str) -> dict[str, Any] | None:
    from tensorflow_model_analysis.writers import eval_config_writer

    config, *_ = eval_config_writer.load_eval_run(evaluation_dir)
    (judged, *_), *_ = (spec.metrics for spec in config.metrics_specs)
    for bound in judged.per_slice_thresholds:
        limits = bound.threshold.value_threshold
        for name in ("lower_bound", "upper_bound"):
            if limits.HasField(name) and getattr(limits, name).value < sys.float_info.max:
                by_class = {each.tfma_class: each.option for each in METRICS.values()}
                threshold = getattr(limits, name).value
                return {"option": by_class[judged.class_name], "threshold": threshold}
    return None


def explain_doubt(
    bound: Mapping[str, Any] | None, interval: Sequence[float] | None, blessed: bool
) -> str:
    """The model's verdict, and whether chance alone could have turned it.

    Args:
      bound: as `read_bound` returns it.
      interval: of the figure that models are judged by, if it is known.
      blessed: the verdict.
    """
    verdict = "blessed" if blessed else "not blessed, so not pushed"
    if bound is None or interval is None or not interval[0] <= bound["threshold"] <= interval[1]:
        return verdict
    return (
        f"{verdict}; but {bound['option']}={bound['threshold']:.4g} lies within what chance "
        f"allows, {interval[0]:.3f} to {interval[1]:.3f}"
    )


def explain_worth(
    measure: str, interval: Sequence[float] | None, always: float | None, is_good: bool
) -> str:
    """Whether a figure is more than chance makes of answering always the same.

    Args:
      measure: what the figure is.
      interval: of the figure.
      always: the figure of the best answer that is always the same.
      is_good: whether the model was good enough.

    Returns:
      As a sentence begins; "" where nothing is known.
    """
    if interval is None or always is None:
        return ""
    low, high = interval
    if measure in IN_WORDS and not is_share(measure):
        low, high, always = -high, -low, -always
    if low <= always <= high:
        return "Not told from guessing"
    return (
        ("Better than guessing" + ", not yet good" * (not is_good))
        if low > always
        else ("Worse than guessing")
    )


def count_right(accuracy: float, records: int) -> str:
    """How many of a class's records are right."""
    return f"{round(accuracy * records):,} of {records:,} are right"


def explain_refusal(failures: Sequence[Mapping[str, Any]], model_dir: str | None) -> str:
    """One line: what was measured, what was asked for and by which option, and where the model is.

    Args:
      failures: as `read_failures` returns them.
      model_dir: where the model is that was not pushed; None if unknown.
    """
    where = f" The model is in {model_dir}." if model_dir else ""
    return f"The model was not pushed: {explain_misses(failures)}.{where}"


def explain_misses(failures: Sequence[Mapping[str, Any]]) -> str:
    """What was measured and what was asked for, of each bound that `read_failures` found missed."""
    return "; ".join(map(_explain, failures)) or "its Evaluator did not bless it"


def _describe(failure: Any) -> dict[str, Any]:
    bound = failure.metric_threshold
    measured = failure.metric_value
    if bound.HasField("change_threshold"):
        option, threshold = "evaluation.min_improvement", bound.change_threshold.absolute.value
    else:
        limits = bound.value_threshold
        option = METRICS[failure.metric_key.name].option
        is_most = limits.HasField("upper_bound")
        threshold = (limits.upper_bound if is_most else limits.lower_bound).value
    kind = measured.WhichOneof("type")
    value = {
        "double_value": measured.double_value.value,
        "bounded_value": measured.bounded_value.value.value,
    }.get(kind)
    measure = METRICS[failure.metric_key.name].words
    told = {} if measure == "accuracy" else {"measure": measure}
    return {"option": option, "threshold": threshold, "measured": value, **told}


def _explain(failure: Mapping[str, Any]) -> str:
    gained = failure["option"].endswith("min_improvement")
    side = "most" if failure["option"].startswith("evaluation.max_") else "least"
    measure = failure.get("measure", "accuracy")
    name = f"the {measure} gained over the latest model that was pushed"
    name = name if gained else f"its {measure}"
    if failure["measured"] is None:
        return f"{name} could not be measured"
    return (
        f"{name} is {failure['measured']:.4g}, but {failure['option']} asks for at {side} "
        f"{failure['threshold']:.4g}"
    )
