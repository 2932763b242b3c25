"""The pipeline: one component a paragraph. It knows no engine and no command line."""

import os

from tfx import v1 as tfx

# isort: split
# After TFX, which puts a stand-in where this wants a module that tfx-bsl 1.21 no longer has.
import tensorflow_data_validation as tfdv

from components import files, record
from components.augment.apply import check_user_steps
from components.augment.options import UserStep
from components.code_version import code_version
from components.ingest.component import ImageExampleGen
from components.training.evaluation import evaluation_config
from components.transform.component import ImageTransform
from components.transform.function_version import function_version
from pipeline.config import PipelineConfig


def create_pipeline(
    config: PipelineConfig,
    images_dir: str,
    pipeline_root: str,
    push_dir: str,
    fingerprint: str | tfx.dsl.experimental.RuntimeParameter = "",
    metadata_path: str | None = None,
    beam_args: tuple[str, ...] = (),
) -> tfx.dsl.Pipeline:
    """Composes the components.

    Args:
      config: every component's options.
      images_dir: the folder of images, or its URI.
      pipeline_root: where the components' outputs are kept, a folder or a URI.
      push_dir: where a blessed model is pushed.
      fingerprint: of the images, so that a changed folder is ingested again; or the parameter in
        which each run of a compiled pipeline gives it.
      metadata_path: SQLite file of TFX's metadata; None where the engine has its own.
      beam_args: Beam flags of all components.

    Returns:
      The pipeline, for any of TFX's runners.

    Raises:
      UserError: if a random step of the user's own cannot be imported or called.
    """
    check_user_steps(config.feeding.augment)

    # Raw images become shuffled, sharded, uncompressed TFRecords, split by content.
    example_gen = ImageExampleGen(images_dir, config.ingest, fingerprint)

    # Statistics of the columns that describe images.
    statistics_gen = tfx.components.StatisticsGen(
        examples=example_gen.outputs["examples"], stats_options=statistics_options()
    )

    # The schema is inferred, then examples of all splits are checked against it.
    schema_gen = tfx.components.SchemaGen(
        statistics=statistics_gen.outputs["statistics"], infer_feature_shape=True
    )
    example_validator = tfx.components.ExampleValidator(
        statistics=statistics_gen.outputs["statistics"], schema=schema_gen.outputs["schema"]
    )

    # What must be known of the whole train split becomes a graph over uint8 pixel batches.
    image_transform = ImageTransform(
        example_gen.outputs["examples"],
        config.view,
        config.transform,
        files.join(pipeline_root, "analyzer_cache") if config.transform.keep_cache else None,
    )

    # Trains on shards read through `input_fn`, and exports a model that takes raw image bytes.
    trainer = tfx.components.Trainer(
        run_fn="components.training.trainer.run_fn",
        examples=example_gen.outputs["examples"],
        transform_graph=image_transform.outputs["transform_graph"],
        train_args=tfx.proto.TrainArgs(splits=["train"]),
        eval_args=tfx.proto.EvalArgs(splits=["eval"]),
        custom_config={
            "view": config.view.model_dump(mode="json"),
            "feeding": config.feeding.model_dump(mode="json"),
            "training": config.training.model_dump(mode="json"),
            "code_version": _version_of_training(config),
        },
    )

    # Measures the exported model on the eval split, whole and by class, against a threshold.
    evaluator = tfx.components.Evaluator(
        examples=example_gen.outputs["examples"],
        model=trainer.outputs["model"],
        example_splits=["eval"],
        eval_config=evaluation_config(
            config.evaluation.min_accuracy, config.evaluation.confidence_intervals
        ),
    )

    # A model that passed is copied to where servers look for it.
    pusher = tfx.components.Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=push_dir)
        ),
    )

    return tfx.dsl.Pipeline(
        pipeline_name=config.name,
        pipeline_root=pipeline_root,
        components=[
            example_gen,
            statistics_gen,
            schema_gen,
            example_validator,
            image_transform,
            trainer,
            evaluator,
            pusher,
        ],
        enable_cache=True,
        metadata_connection_config=_metadata_connection(metadata_path),
        beam_pipeline_args=list(beam_args),
    )


def statistics_options() -> tfdv.StatsOptions:
    """Which columns statistics are made of: not the images' bytes, which would only clog top-k."""
    return tfdv.StatsOptions(feature_allowlist=[column.key for column in record.METADATA_COLUMNS])


def _metadata_connection(path: str | None):
    if path is None:
        return None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return tfx.orchestration.metadata.sqlite_metadata_connection_config(path)


def _version_of_training(config: PipelineConfig) -> str:
    """Hashes of the code that trains: the project's, and what dotted paths name of the user's."""
    steps = [step.op for step in config.feeding.augment if isinstance(step, UserStep)]
    own = map(function_version, [config.training.model, *steps])
    return "-".join([code_version("augment", "feeding", "training", "transform"), *own])
