"""The pipeline, one component per paragraph. It depends on no engine and no command line."""

import os
from collections.abc import Sequence

from ml_metadata.proto import metadata_store_pb2
from tfx.components import ExampleValidator, SchemaGen, Trainer
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.orchestration import metadata
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2, trainer_pb2
from tfx.types.channel import Channel

# isort: split
# After TFX, which provides a stand-in for a module that this needs and tfx-bsl 1.21 lacks.
import tensorflow_data_validation as tfdv

from image_pipeline.choose_steps import complete_steps
from image_pipeline.components import files
from image_pipeline.components.augment.apply import check_user_steps
from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.beam.tfx_components import StatisticsGen
from image_pipeline.components.code_version import code_version
from image_pipeline.components.dataset import record
from image_pipeline.components.evaluation.component import Evaluator
from image_pipeline.components.evaluation.findings import check_slices
from image_pipeline.components.function_version import source_version
from image_pipeline.components.inference.component import ImagePredictor
from image_pipeline.components.ingest.component import ImageExampleGen
from image_pipeline.components.models.names import IMAGENET, is_dotted, is_saved
from image_pipeline.components.sources.span_pattern import LATEST
from image_pipeline.components.tasks.choose_task import choose_task, name_task
from image_pipeline.components.training.pusher import Pusher
from image_pipeline.components.transform.component import ImageTransform
from image_pipeline.config import PipelineConfig, check_labels_fit, check_pixels_fit, check_splits
from image_pipeline.content_version import content_version
from image_pipeline.run.resolvers import find_baseline, find_start, join_spans

_USED_IN_TRAINING = (
    *("augment", "feeding", "models", "order", "served", "tasks", "training", "transform"),
)


def create_pipeline(
    config: PipelineConfig,
    images_dir: str | RuntimeParameter,
    pipeline_root: str,
    push_dir: str,
    fingerprint: str | RuntimeParameter = "",
    metadata_path: str | None = None,
    beam_args: tuple[str, ...] = (),
    span: int | RuntimeParameter | None = None,
) -> Pipeline:
    """Composes the components.

    Args:
      config: every component's options.
      images_dir: the folder of images, or its URI; or a pattern of spans' folders; or the parameter
        by which each run of a compiled pipeline passes it.
      pipeline_root: where the components' outputs are kept, a folder or a URI.
      push_dir: where a blessed model is pushed.
      fingerprint: fingerprint of the images, so that a changed folder is ingested again; or the
        parameter by which each run of a compiled pipeline passes it.
      metadata_path: SQLite file for TFX's metadata; None if the engine has its own.
      beam_args: Beam flags for all components.
      span: which of the pattern's spans to ingest; None for the latest at each run.

    Returns:
      The pipeline, for any of TFX's runners.

    Raises:
      UserError: if a random step of the user's own cannot be imported or called, or if
        `spans.window` is set and the span is not known before the run.
    """
    check_splits(config)
    config, _ = complete_steps(config)  # Whoever sees the images has chosen before.
    check_labels_fit(config)
    check_pixels_fit(config)
    check_user_steps(config.feeding.steps)
    task = name_task(choose_task(config.ingest))
    further = record.further_columns(config.ingest.column_types)
    check_slices(task, config.evaluation.slices, further)
    # Raw images become shuffled, sharded, uncompressed TFRecords, split by content.
    example_gen = ImageExampleGen(
        images_dir,
        config.ingest,
        fingerprint,
        _span_parameter(span),
        **_choose_roots(pipeline_root, metadata_path),
    )
    # The data to analyse, train and evaluate on: that data set, or those of several spans.
    examples, span_resolvers = join_spans(example_gen, config.spans, span)
    # Statistics of the columns that describe images, a schema, and a check of all splits.
    checks = _check_columns(example_gen.outputs["examples"], further)
    # What must be known of the whole train split becomes a graph over batches of pixels.
    cache_dir = _choose_cache_dir(config, pipeline_root)
    image_transform = ImageTransform(examples, config.view, config.transform, cache_dir)
    # Trains on shards read through `input_fn`, and exports a model that takes raw image bytes.
    start, start_resolvers = find_start(image_transform, config.training)
    trainer = _create_trainer(config, examples, image_transform.outputs["transform_graph"], start)
    # Measures the exported model against a threshold and, if asked for, the latest that passed.
    baseline, baseline_resolvers = find_baseline(trainer, config.evaluation)
    model = trainer.outputs["model"]
    evaluator = Evaluator(examples, model, config.evaluation, task, baseline)
    # A model that passed is copied to where servers look for it.
    pusher = _create_pusher(model, evaluator.outputs["blessing"], push_dir)
    # If asked for: what that model says of further images, which need no labels.
    predictors = _create_predictors(config, model, evaluator.outputs["blessing"])

    before_training = [example_gen, *span_resolvers, *checks, image_transform, *start_resolvers]
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=pipeline_root,
        components=[
            *(*before_training, trainer, *baseline_resolvers, evaluator, pusher),
            *predictors,
        ],
        enable_cache=True,
        metadata_connection_config=_metadata_connection(metadata_path),
        beam_pipeline_args=list(beam_args),
    )


def _choose_roots(pipeline_root: str, metadata_path: str | None) -> dict[str, str]:
    """Where ingest keeps what is not in its output's folder: `ImageExampleGen`'s arguments.

    Engines with a store of metadata of their own may give each run, or each attempt, folders of its
    own, and copy those that are in a store to and from each step's machine.
    """
    if metadata_path is not None:
        return {}
    if files.is_local(pipeline_root):
        return {"work_root": files.join(pipeline_root, "working")}
    root = _find_store_root(pipeline_root)
    return {"work_root": files.join(root, "working"), "data_root": files.join(root, "data")}


def _find_store_root(pipeline_root: str) -> str:
    """The root without what Kubeflow lets it say of how to reach its store: `?region=…`."""
    return pipeline_root if files.is_local(pipeline_root) else pipeline_root.partition("?")[0]


def _span_parameter(
    span: int | RuntimeParameter | None,
) -> str | RuntimeParameter:
    if span is None:
        return LATEST
    return str(span) if isinstance(span, int) else span


def _check_columns(examples: Channel, further: Sequence[record.Column]) -> list[BaseComponent]:
    """Infers a schema from statistics, then checks the examples of all splits against it."""
    statistics_gen = StatisticsGen(examples=examples, stats_options=statistics_options(further))
    statistics = statistics_gen.outputs["statistics"]
    schema_gen = SchemaGen(statistics=statistics, infer_feature_shape=True)
    example_validator = ExampleValidator(statistics=statistics, schema=schema_gen.outputs["schema"])
    return [statistics_gen, schema_gen, example_validator]


def statistics_options(further: Sequence[record.Column] = ()) -> tfdv.StatsOptions:
    """Statistics options: leave out the images' bytes, which would only clog top-k."""
    columns = (*record.METADATA_COLUMNS, *further)
    return tfdv.StatsOptions(feature_allowlist=[column.key for column in columns])


def _choose_cache_dir(config: PipelineConfig, pipeline_root: str) -> str | None:
    """Where the analysis caches its findings for each data set; None if no later run needs them."""
    if config.transform.keep_cache or config.spans.window != 1:
        return files.join(_find_store_root(pipeline_root), "analyzer_cache")
    return None


def _create_trainer(
    config: PipelineConfig,
    examples: Channel,
    transform_graph: Channel,
    start: Channel | None,
) -> Trainer:
    return Trainer(
        run_fn="image_pipeline.components.training.trainer.run_fn",
        examples=examples,
        transform_graph=transform_graph,
        base_model=start,
        train_args=trainer_pb2.TrainArgs(splits=["train"]),
        eval_args=trainer_pb2.EvalArgs(splits=["eval"]),
        custom_config={
            "view": config.view.model_dump(mode="json"),
            "feeding": config.feeding.model_dump(mode="json"),
            "training": config.training.model_dump(mode="json"),
            "code_version": _version_of_training(config),
        },
    )


def _version_of_training(config: PipelineConfig) -> str:
    """Hashes of what the Trainer reads besides its inputs: code, and the weights it starts from."""
    steps = [step.op for step in config.feeding.steps if isinstance(step, UserStep)]
    model, compiler = config.training.model, config.training.compile
    builder = model if model is not None and is_dotted(model) else None
    functions = [each for each in (builder, compiler, *steps) if each]
    saved = model if model is not None and is_saved(model) else None
    weights = config.training.weights
    files = (saved, None if weights == IMAGENET else weights)
    contents = (content_version(each) for each in files if each)
    return "-".join([code_version(*_USED_IN_TRAINING), *map(source_version, functions), *contents])


def _create_pusher(model: Channel, blessing: Channel, push_dir: str) -> Pusher:
    return Pusher(
        model=model,
        model_blessing=blessing,
        push_destination=pusher_pb2.PushDestination(
            filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=push_dir)
        ),
    )


def _create_predictors(
    config: PipelineConfig, model: Channel, blessing: Channel
) -> list[ImagePredictor]:
    """The step for `inference.images`; none if there are none."""
    if config.inference.images is None:
        return []
    return [ImagePredictor(model, blessing, config.inference, config.ingest)]


def _metadata_connection(path: str | None) -> metadata_store_pb2.ConnectionConfig | None:
    if path is None:
        return None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return metadata.sqlite_metadata_connection_config(path)
