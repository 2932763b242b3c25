"""What TFX's Evaluator measures, and when a model is good enough to be pushed."""

import sys

from google.protobuf import wrappers_pb2

# Not `tensorflow_model_analysis as tfma`: TFMA 0.52 itself has no `tfma.EvalConfig`, only after TFX
# has been imported does it get one.
from tensorflow_model_analysis.proto import config_pb2

from image_pipeline.components.dataset import record
from image_pipeline.components.tasks.classification import CLASSIFICATION
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.signatures import SERVE_EXAMPLES, TRANSFORM_FEATURES
from image_pipeline.components.tasks.task import Measure, Task

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
    judged, *further = task.measures(options)
    metrics = [_bound(judged, options.min_improvement), *map(_configure, further)]
    metrics.append(config_pb2.MetricConfig(class_name="ExampleCount"))
    by_label = [config_pb2.SlicingSpec(feature_keys=[record.LABEL])]
    return config_pb2.EvalConfig(
        model_specs=[_describe_model(name, task) for name in names],
        slicing_specs=[config_pb2.SlicingSpec(), *(by_label if task.sliced_by_label else [])],
        metrics_specs=[config_pb2.MetricsSpec(metrics=metrics)],
        options=config_pb2.Options(
            compute_confidence_intervals=wrappers_pb2.BoolValue(value=options.confidence_intervals)
        ),
    )


def _configure(measure: Measure) -> config_pb2.MetricConfig:
    return config_pb2.MetricConfig(class_name=measure.class_name, module=measure.module)


def _bound(measure: Measure, min_improvement: float | None) -> config_pb2.MetricConfig:
    """The metric that models are judged by, and how good it must be for them to be blessed."""
    enough = config_pb2.MetricThreshold()
    if measure.at_least is not None:
        enough.value_threshold.lower_bound.value = measure.at_least
    if measure.at_most is not None:
        enough.value_threshold.upper_bound.value = measure.at_most
    if measure.at_least is None and measure.at_most is None and min_improvement is not None:
        # Without an earlier model TFX takes the change away, and TFMA blesses nothing that has no
        # bound left: the first model would never pass.
        enough.value_threshold.upper_bound.value = sys.float_info.max
    if min_improvement is not None:
        directions = config_pb2.MetricDirection
        falls = measure.at_least is None
        enough.change_threshold.absolute.value = -min_improvement if falls else min_improvement
        enough.change_threshold.direction = (
            directions.LOWER_IS_BETTER if falls else directions.HIGHER_IS_BETTER
        )
    # For the slice of all records only; `threshold=` would ask the same of every class.
    of_all = config_pb2.PerSliceMetricThreshold(
        slicing_specs=[config_pb2.SlicingSpec()], threshold=enough
    )
    metric = _configure(measure)
    metric.per_slice_thresholds.append(of_all)
    return metric


def _describe_model(name: str, task: Task) -> config_pb2.ModelSpec:
    """How TFMA calls a model, be it the one that was trained or the one it is compared with."""
    return config_pb2.ModelSpec(
        name=name,
        is_baseline=name == BASELINE,
        signature_name=SERVE_EXAMPLES,
        # The records hold class names or files; the model itself makes of them what it learned.
        preprocessing_function_names=[TRANSFORM_FEATURES],
        label_key=task.truth,
        prediction_key=task.prediction,
    )
