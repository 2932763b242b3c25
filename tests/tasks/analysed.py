"""Runs TFMA as TFX's Evaluator does, for tests of tasks."""

import tensorflow_model_analysis as tfma
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components.evaluation.counting import custom_extractors
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.tasks.options import EvaluationOptions


def analyse(task, shards, model_dirs, folder, **options):
    """The figures of shards, by class, and whether the model is good enough."""
    config = evaluation_config(EvaluationOptions(**options), task)
    models = [
        tfma.default_eval_shared_model(path, eval_config=config, model_name=spec.name)
        for path, spec in zip(model_dirs, config.model_specs, strict=True)
    ]
    arguments = {
        "eval_shared_model": models if len(models) > 1 else models[0],
        "eval_config": config,
    }
    tfma.run_model_analysis(
        **arguments,
        extractors=custom_extractors(tensor_adapter_config=None, **arguments),
        data_location=shards,
        output_path=str(folder),
        pipeline_options=PipelineOptions(runner="FnApiRunner", direct_running_mode="in_memory"),
    )
    found = tfma.load_eval_result(str(folder), model_name=config.model_specs[0].name or None)
    ((key, metrics),) = found.slicing_metrics
    assert key == ()
    return metrics[""], tfma.load_validation_result(str(folder))
