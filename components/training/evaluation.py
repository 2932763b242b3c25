"""What TFX's Evaluator measures, and when a model is good enough to be pushed."""

from google.protobuf import wrappers_pb2

# Not `tensorflow_model_analysis as tfma`: TFMA 0.52 itself has no `tfma.EvalConfig`, only after TFX
# has been imported does it get one.
from tensorflow_model_analysis.proto import config_pb2

from image_pipeline.components.dataset import record
from image_pipeline.components.training import serving
from image_pipeline.components.training.options import EvaluationOptions

# TFMA's names of the two models that are compared.
CANDIDATE, BASELINE = "candidate", "baseline"


def evaluation_config(options: EvaluationOptions) -> config_pb2.EvalConfig:
    """Accuracy and number of records, over all records and for each class.

    Args:
      options: when a model is good enough. Confidence intervals are TFMA's, by jackknife, which
        takes a multiple of the time.

    Returns:
      The configuration, for models that `serving.export_model` writes.
    """
    # TFX's Evaluator leaves out both names where there is no baseline yet.
    names = [""] if options.min_improvement is None else [CANDIDATE, BASELINE]
    metrics = [_bound_accuracy(options), config_pb2.MetricConfig(class_name="ExampleCount")]
    return config_pb2.EvalConfig(
        model_specs=[_describe_model(name) for name in names],
        slicing_specs=[
            config_pb2.SlicingSpec(),
            config_pb2.SlicingSpec(feature_keys=[record.LABEL]),
        ],
        metrics_specs=[config_pb2.MetricsSpec(metrics=metrics)],
        options=config_pb2.Options(
            compute_confidence_intervals=wrappers_pb2.BoolValue(value=options.confidence_intervals)
        ),
    )


def _bound_accuracy(options: EvaluationOptions) -> config_pb2.MetricConfig:
    """The accuracy, and how high it must be for a model to be blessed."""
    enough = config_pb2.MetricThreshold(
        value_threshold=config_pb2.GenericValueThreshold(
            lower_bound=wrappers_pb2.DoubleValue(value=options.min_accuracy)
        )
    )
    if options.min_improvement is not None:
        enough.change_threshold.absolute.value = options.min_improvement
        enough.change_threshold.direction = config_pb2.MetricDirection.HIGHER_IS_BETTER
    # For the slice of all records only; `threshold=` would ask the same of every class.
    of_all = config_pb2.PerSliceMetricThreshold(
        slicing_specs=[config_pb2.SlicingSpec()], threshold=enough
    )
    return config_pb2.MetricConfig(
        class_name="SparseCategoricalAccuracy", per_slice_thresholds=[of_all]
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
