"""What TFX's Evaluator measures and when a model is good enough; and what it then measured."""

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow_model_analysis as tfma
from google.protobuf import wrappers_pb2

# TFMA 0.52 itself has no `tfma.EvalConfig`; only after TFX has been imported does it get one.
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.writers import eval_config_writer

from image_pipeline.components.dataset import record
from image_pipeline.components.evaluation.facts import Bound, Failure, Mistake
from image_pipeline.components.evaluation.metrics import METRICS, Estimate, Metric
from image_pipeline.components.tasks.image_tasks import CLASSIFICATION
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.signatures import SERVE_EXAMPLES, TRANSFORM_FEATURES
from image_pipeline.components.tasks.task import Task

# TFMA's names of the two models that are compared.
CANDIDATE, BASELINE = "candidate", "baseline"


def evaluation_config(
    options: EvaluationOptions, task: Task = CLASSIFICATION
) -> config_pb2.EvalConfig:
    """What the task measures and the number of records, over all records and, if so, by class.

    Args:
      options: when a model is good enough. Confidence intervals are TFMA's, by jackknife, which
        takes a multiple of the time.
      task: what the model has learned.

    Returns:
      The configuration, for models that `serving.export_model` writes.
    """
    # TFX's Evaluator leaves out both names where there is no baseline yet.
    names = [""] if options.min_improvement is None else [CANDIDATE, BASELINE]
    models = [
        config_pb2.ModelSpec(
            name=name,
            is_baseline=name == BASELINE,
            signature_name=SERVE_EXAMPLES,
            # The records hold class names or files; the model itself makes of them what it learned.
            preprocessing_function_names=[TRANSFORM_FEATURES],
            label_key=task.truth,
            prediction_key=task.prediction,
        )
        for name in names
    ]
    measured = [METRICS[name] for name in task.metrics]
    metrics = [
        config_pb2.MetricConfig(class_name=each.tfma_class, module=each.module) for each in measured
    ]
    # For the slice of all records only; `threshold=` would ask the same of every class.
    of_all = config_pb2.PerSliceMetricThreshold(
        slicing_specs=[config_pb2.SlicingSpec()], threshold=_bound(measured[0], options)
    )
    metrics[0].per_slice_thresholds.append(of_all)
    metrics.append(config_pb2.MetricConfig(class_name="ExampleCount"))
    by_label = [config_pb2.SlicingSpec(feature_keys=[record.LABEL])]
    return config_pb2.EvalConfig(
        model_specs=models,
        slicing_specs=[config_pb2.SlicingSpec(), *(by_label if task.sliced_by_label else [])],
        metrics_specs=[config_pb2.MetricsSpec(metrics=metrics)],
        options=config_pb2.Options(
            compute_confidence_intervals=wrappers_pb2.BoolValue(value=options.confidence_intervals)
        ),
    )


def _bound(metric: Metric, options: EvaluationOptions) -> config_pb2.MetricThreshold:
    """How good models must be, by the metric that they are judged by, to be blessed."""
    enough = config_pb2.MetricThreshold()
    bound = getattr(options, metric.option.removeprefix("evaluation."))
    gain = options.min_improvement
    if metric.is_share:
        enough.value_threshold.lower_bound.value = bound
    elif bound is not None:
        enough.value_threshold.upper_bound.value = bound
    else:
        # TFX blesses nothing that has no bound: of numbers no model would pass unless one is set,
        # and never a first one, without an earlier model to compare it with.
        enough.value_threshold.upper_bound.value = sys.float_info.max
    if gain is not None:
        directions = config_pb2.MetricDirection
        enough.change_threshold.absolute.value = gain if metric.is_share else -gain
        enough.change_threshold.direction = (
            directions.HIGHER_IS_BETTER if metric.is_share else directions.LOWER_IS_BETTER
        )
    return enough


# Readable names for TFMA's metrics, those that a task measures; a share lies between its limits,
# whatever TFMA estimates.
_WORDS = {name: each.words for name, each in METRICS.items()} | {"example_count": "records"}
_WORDS |= {f"{name}_diff": f"{each.words} gained" for name, each in METRICS.items()}
_LIMITS = {each.words: (0.0, 1.0) for each in METRICS.values() if each.is_share}
_LIMITS |= {f"{words} gained": (-1.0, 1.0) for words in _LIMITS}


@dataclasses.dataclass(frozen=True)
class Measured:
    """What TFMA has of a model.

    Attributes:
      metric: what it is judged by.
      bound: how good it must be; None if any is good enough.
      failures: the bounds that it missed.
      overall: all metrics, by the words for them, with the ends of those that TFMA estimated.
      classes: the same of each class.
      mistakes: of masks and boxes, what is wrong with a class.
    """

    metric: Metric
    bound: Bound | None
    failures: list[Failure]
    overall: dict[str, Estimate]
    classes: dict[str, dict[str, Estimate]]
    mistakes: dict[str, Mistake]


def read_measured(evaluation_dir: str, names: Sequence[str] | None = None) -> Measured:
    """Reads TFMA's files.

    Args:
      evaluation_dir: the Evaluator's output.
      names: of masks, boxes and tags, the classes in the order of their ids, by which TFMA keeps
        their metrics; None of classes, of which it keeps slices.
    """
    config, *_, locations = eval_config_writer.load_eval_run(evaluation_dir)
    # With an earlier model beside it, the trained one has a name.
    judged = CANDIDATE if len(locations) > 1 else None
    result = tfma.load_eval_result(evaluation_dir, model_name=judged)
    slices = {key: metrics[""] for key, metrics in result.slicing_metrics}
    of_all = slices.get((), {})
    if names is None:
        found = {key[0][1]: own.get("", {}) for key, own in slices.items() if key}
    else:
        keys = {f"classId:{number}": name for number, name in enumerate(names)}
        found = {name: of_all[key] for key, name in keys.items() if key in of_all}
    classes = {name: read_metrics(own) for name, own in found.items()}
    (judging, *_), *_ = (spec.metrics for spec in config.metrics_specs)
    metric = next(each for each in METRICS.values() if each.tfma_class == judging.class_name)
    validation = tfma.load_validation_result(evaluation_dir)
    return Measured(
        metric=metric,
        bound=_find_bound(judging, metric),
        failures=[
            _describe_failure(failure)
            for part in validation.metric_validations_per_slice
            for failure in part.failures
        ],
        overall=read_metrics(of_all.get("", {})),
        classes=classes,
        mistakes=_find_mistakes(classes, names or ()),
    )


def read_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Estimate]:
    """The metrics of a slice that are numbers, by the words for them."""
    found = {}
    for name, metric in metrics.items():
        if name == "example_count_diff":  # of the same records
            continue
        words, bounded = _WORDS.get(name, name), metric.get("boundedValue")
        value = float(metric.get("doubleValue", math.nan) if bounded is None else bounded["value"])
        if not math.isfinite(value):
            continue
        ends = [float((bounded or {}).get(end, math.nan)) for end in ("lowerBound", "upperBound")]
        if all(map(math.isfinite, ends)):
            least, most = _LIMITS.get(words, (-math.inf, math.inf))
            found[words] = Estimate(value, max(ends[0], least), min(ends[1], most))
        else:
            found[words] = Estimate(value)
    return found


def _find_mistakes(
    classes: Mapping[str, Mapping[str, Estimate]], names: Sequence[str]
) -> dict[str, Mistake]:
    """What masks' classes are taken for, and how many boxes are found, where it was measured."""
    mistakes: dict[str, Mistake] = {}
    for name, own in classes.items():
        values = {key: each.value for key, each in own.items() if each.value is not None}
        if "mistaken" in own and (other := int(values["taken_for"])) < len(names):
            mistakes[name] = Mistake(taken_for=names[other], share=values["mistaken"])
        elif "found_50" in own:
            mistakes[name] = Mistake(found=values["found_50"])
    return mistakes


def _find_bound(judging: Any, metric: Metric) -> Bound | None:
    for bound in judging.per_slice_thresholds:
        limits = bound.threshold.value_threshold
        for name in ("lower_bound", "upper_bound"):
            if limits.HasField(name) and getattr(limits, name).value < sys.float_info.max:
                return Bound(option=metric.option, threshold=getattr(limits, name).value)
    return None


def _describe_failure(failure: Any) -> Failure:
    bound, measured = failure.metric_threshold, failure.metric_value
    metric = METRICS[failure.metric_key.name]
    if bound.HasField("change_threshold"):
        option, threshold = "evaluation.min_improvement", bound.change_threshold.absolute.value
    else:
        limits = bound.value_threshold
        is_most = limits.HasField("upper_bound")
        option = metric.option
        threshold = (limits.upper_bound if is_most else limits.lower_bound).value
    value = {
        "double_value": measured.double_value.value,
        "bounded_value": measured.bounded_value.value.value,
    }.get(measured.WhichOneof("type"))
    return Failure(option=option, threshold=threshold, measure=metric.words, measured=value)
