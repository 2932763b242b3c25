"""What TFX's Evaluator measures, and when a model is good enough to be pushed."""

from google.protobuf import wrappers_pb2

# Not `tensorflow_model_analysis as tfma`: TFMA 0.52 itself has no `tfma.EvalConfig`, only after TFX
# has been imported does it get one.
from tensorflow_model_analysis.proto import config_pb2

from components import record
from components.training import serving

# TFMA's names of the two models that are compared.
CANDIDATE, BASELINE = "candidate", "baseline"


def evaluation_config(
    min_accuracy: float,
    confidence_intervals: bool = False,
    min_improvement: float | None = None,
) -> config_pb2.EvalConfig:
    """Accuracy and number of records, over all records and for each class.

    Args:
      min_accuracy: a model whose accuracy over all records is lower is not blessed.
      confidence_intervals: whether TFMA estimates how far chance could have moved the
        metrics (by jackknife, which takes a multiple of the time).
      min_improvement: a model whose accuracy over all records does not exceed the baseline model's
        by as much is not blessed. None compares with no other model.

    Returns:
      The configuration, for models that `serving.export_model` writes.
    """
    enough = config_pb2.MetricThreshold(
        value_threshold=config_pb2.GenericValueThreshold(
            lower_bound=wrappers_pb2.DoubleValue(value=min_accuracy)
        )
    )
    models = [_describe_model("")]
    if min_improvement is not None:
        # TFX's Evaluator leaves out both where there is no baseline yet.
        models = [_describe_model(CANDIDATE), _describe_model(BASELINE)]
        enough.change_threshold.absolute.value = min_improvement
        enough.change_threshold.direction = config_pb2.MetricDirection.HIGHER_IS_BETTER
    accuracy = config_pb2.MetricConfig(
        class_name="SparseCategoricalAccuracy",
        # For the slice of all records only; `threshold=` would ask the same of every class.
        per_slice_thresholds=[
            config_pb2.PerSliceMetricThreshold(
                slicing_specs=[config_pb2.SlicingSpec()], threshold=enough
            )
        ],
    )
    return config_pb2.EvalConfig(
        model_specs=models,
        slicing_specs=[
            config_pb2.SlicingSpec(),
            config_pb2.SlicingSpec(feature_keys=[record.LABEL]),
        ],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=[accuracy, config_pb2.MetricConfig(class_name="ExampleCount")]
            )
        ],
        options=config_pb2.Options(
            compute_confidence_intervals=wrappers_pb2.BoolValue(value=confidence_intervals)
        ),
    )


def _describe_model(name: str) -> config_pb2.ModelSpec:
    """How TFMA calls a model, be it the one that was trained or the one it is compared with."""
    return config_pb2.ModelSpec(
        name=name,
        is_baseline=name == BASELINE,
        signature_name=serving.SERVE_EXAMPLES,
        # The records hold class names; the model's own vocabulary makes them class ids.
        preprocessing_function_names=[serving.TRANSFORM_FEATURES],
        label_key=serving.LABEL,
        prediction_key=serving.PROBABILITIES,
    )
