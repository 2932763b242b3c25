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
from components.errors import UserError
from components.ingest.component import ImageExampleGen
from components.ingest.options import SpanOptions
from components.ingest.span_pattern import LATEST
from components.ingest.span_resolver import LatestSpans
from components.training.evaluation import evaluation_config
from components.training.options import EvaluationOptions
from components.transform.component import ImageTransform
from components.transform.function_version import function_version
from pipeline.config import PipelineConfig

SPAN_RESOLVER = "SpanResolver"
BASELINE_RESOLVER = "BaselineResolver"


def create_pipeline(
    config: PipelineConfig,
    images_dir: str,
    pipeline_root: str,
    push_dir: str,
    fingerprint: str | tfx.dsl.experimental.RuntimeParameter = "",
    metadata_path: str | None = None,
    beam_args: tuple[str, ...] = (),
    span: int | tfx.dsl.experimental.RuntimeParameter | None = None,
) -> tfx.dsl.Pipeline:
    """Composes the components.

    Args:
      config: every component's options.
      images_dir: the folder of images, or its URI; or a pattern of spans' folders.
      pipeline_root: where the components' outputs are kept, a folder or a URI.
      push_dir: where a blessed model is pushed.
      fingerprint: of the images, so that a changed folder is ingested again; or the parameter in
        which each run of a compiled pipeline gives it.
      metadata_path: SQLite file of TFX's metadata; None where the engine has its own.
      beam_args: Beam flags of all components.
      span: which one of a pattern is ingested; None for the latest, as each run finds it.

    Returns:
      The pipeline, for any of TFX's runners.

    Raises:
      UserError: if a random step of the user's own cannot be imported or called, or if
        `spans.window` is set and the span is not known before the run.
    """
    check_user_steps(config.feeding.augment)

    # Raw images become shuffled, sharded, uncompressed TFRecords, split by content.
    example_gen = ImageExampleGen(images_dir, config.ingest, fingerprint, _span_parameter(span))

    # What is analysed, trained and evaluated on: that data set, or it and those of earlier spans.
    examples, span_resolvers = _join_spans(example_gen, config.spans, span)

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
        examples,
        config.view,
        config.transform,
        files.join(pipeline_root, "analyzer_cache") if _keeps_cache(config) else None,
    )

    # Trains on shards read through `input_fn`, and exports a model that takes raw image bytes.
    trainer = tfx.components.Trainer(
        run_fn="components.training.trainer.run_fn",
        examples=examples,
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

    # Measures the exported model on the eval split, whole and by class, against a threshold, and
    # if asked for, against the latest model that passed.
    baseline, baseline_resolvers = _find_baseline(trainer, config.evaluation)
    evaluator = tfx.components.Evaluator(
        examples=examples,
        model=trainer.outputs["model"],
        baseline_model=baseline,
        example_splits=["eval"],
        eval_config=evaluation_config(
            config.evaluation.min_accuracy,
            config.evaluation.confidence_intervals,
            config.evaluation.min_improvement,
        ),
        module_path="components.training.counting",
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
            *span_resolvers,
            statistics_gen,
            schema_gen,
            example_validator,
            image_transform,
            trainer,
            *baseline_resolvers,
            evaluator,
            pusher,
        ],
        enable_cache=True,
        metadata_connection_config=_metadata_connection(metadata_path),
        beam_pipeline_args=list(beam_args),
    )


def _span_parameter(
    span: int | tfx.dsl.experimental.RuntimeParameter | None,
) -> str | tfx.dsl.experimental.RuntimeParameter:
    if span is None:
        return LATEST
    return str(span) if isinstance(span, int) else span


def _join_spans(
    example_gen: ImageExampleGen,
    options: SpanOptions,
    span: int | tfx.dsl.experimental.RuntimeParameter | None,
) -> tuple[tfx.dsl.Channel, list[tfx.dsl.Resolver]]:
    """The examples to learn from, and the node that finds earlier ones, if there are to be any."""
    if options.window == 1:
        return example_gen.outputs["examples"], []
    if not isinstance(span, int):
        raise UserError(
            f"spans.window={options.window} needs TFX's metadata, in which this machine's runs "
            "find earlier spans, and spans to choose from: give --images a pattern such as "
            "day-{SPAN}, or leave spans.window at 1."
        )
    resolver = tfx.dsl.Resolver(
        strategy_class=LatestSpans,
        config={"newest": span, "count": 0 if options.window == "all" else options.window},
        # Of all runs, where `outputs` would be this run's only.
        examples=tfx.dsl.Channel(
            type=tfx.types.standard_artifacts.Examples,
            producer_component_id=example_gen.id,
            output_key="examples",
        ),
    ).with_id(SPAN_RESOLVER)
    resolver.add_upstream_node(example_gen)
    return resolver.outputs["examples"], [resolver]


def _find_baseline(
    trainer: tfx.components.Trainer, options: EvaluationOptions
) -> tuple[tfx.dsl.Channel | None, list[tfx.dsl.Resolver]]:
    """The model to compare with, and the node that finds it, if that is wished."""
    if options.min_improvement is None:
        return None, []
    kinds = tfx.types.standard_artifacts
    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=kinds.Model),
        model_blessing=tfx.dsl.Channel(type=kinds.ModelBlessing),
    ).with_id(BASELINE_RESOLVER)
    # So that a run from the Trainer on looks for it anew, and one from the Evaluator on does not.
    resolver.add_upstream_node(trainer)
    return resolver.outputs["model"], [resolver]


def _keeps_cache(config: PipelineConfig) -> bool:
    """Whether a later run will ask for what is found in this run's data sets."""
    return config.transform.keep_cache or config.spans.window != 1


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
