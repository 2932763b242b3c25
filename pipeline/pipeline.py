"""The pipeline, one component per paragraph. It depends on no engine and no command line."""

import os
from collections.abc import Sequence

from tfx.components import ExampleValidator, SchemaGen, Trainer
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import (
    LatestBlessedModelStrategy,
)
from tfx.orchestration import metadata
from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2, trainer_pb2
from tfx.types import standard_artifacts
from tfx.types.channel import Channel

# isort: split
# After TFX, which provides a stand-in for a module that this needs and tfx-bsl 1.21 lacks.
import hashlib

import tensorflow_data_validation as tfdv

from image_pipeline.components import files
from image_pipeline.components.augment.apply import check_user_steps
from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.beam.tfx_components import StatisticsGen
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.component import Evaluator
from image_pipeline.components.function_version import code_version, source_version
from image_pipeline.components.inference.component import ImagePredictor
from image_pipeline.components.ingest.component import ImageExampleGen, LatestSpans
from image_pipeline.components.models.names import IMAGENET, is_dotted, is_saved
from image_pipeline.components.sources.span_pattern import LATEST
from image_pipeline.components.tasks.choose_task import choose_task
from image_pipeline.components.training.pusher import Pusher
from image_pipeline.components.transform.component import ImageTransform
from image_pipeline.components.trees import list_names
from image_pipeline.config import PipelineConfig, check_run
from image_pipeline.init.choose_steps import complete_steps
from image_pipeline.tfx_metadata import SPAN_RESOLVER

_USED_IN_TRAINING = (
    *("augment", "feeding", "models", "order", "served", "tasks", "training", "transform"),
)
_BASELINE_RESOLVER, _START_RESOLVER = "BaselineResolver", "StartResolver"


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

    Raises:
      UserError: if a random step of the user's own cannot be imported or called, or if
        `spans.window` is set and the span is not known before the run.
    """
    config, _ = complete_steps(config)  # Whoever sees the images has chosen before.
    check_run(config)
    check_user_steps(config.feeding.steps)
    further = record.further_columns(config.ingest.column_types)
    # Raw images become shuffled, sharded, uncompressed TFRecords, split by content.
    example_gen = ImageExampleGen(
        images_dir,
        config.ingest,
        fingerprint,
        LATEST if span is None else str(span) if isinstance(span, int) else span,
        **_choose_roots(pipeline_root, metadata_path),
    )
    # The data to analyse, train and evaluate on: that data set, or those of several spans.
    examples, span_resolvers = _join_spans(example_gen, config, span)
    # Statistics of the columns that describe images, a schema, and a check of all splits.
    statistics_gen = StatisticsGen(
        examples=example_gen.outputs["examples"], stats_options=statistics_options(further)
    )
    statistics = statistics_gen.outputs["statistics"]
    schema_gen = SchemaGen(statistics=statistics, infer_feature_shape=True)
    example_validator = ExampleValidator(statistics=statistics, schema=schema_gen.outputs["schema"])
    # What must be known of the whole train split becomes a graph over batches of pixels. The
    # analysis keeps its findings for each data set where a later run may need them.
    cache_dir = None
    if config.transform.keep_cache or config.spans.window != 1:
        cache_dir = files.join(_find_store_root(pipeline_root), "analyzer_cache")
    image_transform = ImageTransform(examples, config.view, config.transform, cache_dir)
    # If asked for: the model to train on from. It is looked for after what takes long, so that what
    # other runs have finished by then is found.
    start: Channel | None = None
    start_resolvers: list[Resolver] = []
    if config.training.warm_start != "none":
        start, start_resolvers = _find_latest_blessed(_START_RESOLVER, image_transform)
    # Trains on shards read through `input_fn`, and exports a model that takes raw image bytes.
    trainer = Trainer(
        run_fn="image_pipeline.components.training.trainer.run_fn",
        examples=examples,
        transform_graph=image_transform.outputs["transform_graph"],
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
    # Measures the exported model against a threshold and, if asked for, the latest that passed. A
    # run from the Trainer on looks that up again, and one from the Evaluator on does not.
    baseline: Channel | None = None
    baseline_resolvers: list[Resolver] = []
    if config.evaluation.min_improvement is not None:
        baseline, baseline_resolvers = _find_latest_blessed(_BASELINE_RESOLVER, trainer)
    model = trainer.outputs["model"]
    task = choose_task(config.ingest).name
    evaluator = Evaluator(examples, model, config.evaluation, task, baseline)
    blessing = evaluator.outputs["blessing"]
    # A model that passed is copied to where servers look for it.
    folder = pusher_pb2.PushDestination.Filesystem(base_directory=push_dir)
    destination = pusher_pb2.PushDestination(filesystem=folder)
    pusher = Pusher(model=model, model_blessing=blessing, push_destination=destination)
    # If asked for: what that model says of further images, which need no labels.
    predictors = []
    if config.inference.images is not None:
        predictors = [ImagePredictor(model, blessing, config.inference, config.ingest)]

    connection = None
    if metadata_path is not None:
        os.makedirs(os.path.dirname(metadata_path), exist_ok=True)
        connection = metadata.sqlite_metadata_connection_config(metadata_path)
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=pipeline_root,
        components=[
            *(example_gen, *span_resolvers, statistics_gen, schema_gen, example_validator),
            *(image_transform, *start_resolvers, trainer, *baseline_resolvers, evaluator, pusher),
            *predictors,
        ],
        enable_cache=True,
        metadata_connection_config=connection,
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


def statistics_options(further: Sequence[record.Column] = ()) -> tfdv.StatsOptions:
    """Statistics options: leave out the images' bytes, which would only clog top-k."""
    columns = (*record.METADATA_COLUMNS, *further)
    return tfdv.StatsOptions(feature_allowlist=[column.key for column in columns])


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


def _join_spans(
    example_gen: ImageExampleGen, config: PipelineConfig, span: int | RuntimeParameter | None
) -> tuple[Channel, list[Resolver]]:
    """The examples to train on, and the node that finds earlier ones, if they are wanted.

    Raises:
      UserError: if they are wanted, and the span is not known before the run.
    """
    window = config.spans.window
    if window == 1:
        return example_gen.outputs["examples"], []
    if not isinstance(span, int):
        raise UserError(
            f"spans.window={window} needs TFX's metadata, in which this machine's runs "
            "find earlier spans, and spans to choose from: give --images a pattern such as "
            "day-{SPAN}, or leave spans.window at 1."
        )
    resolver = Resolver(
        strategy_class=LatestSpans,
        config={"newest": span, "count": 0 if window == "all" else window},
        # From all runs; `outputs` would be only this run's.
        examples=Channel(
            type=standard_artifacts.Examples,
            producer_component_id=example_gen.id,
            output_key="examples",
        ),
    ).with_id(SPAN_RESOLVER)
    resolver.add_upstream_node(example_gen)
    return resolver.outputs["examples"], [resolver]


def _find_latest_blessed(name: str, after: BaseComponent) -> tuple[Channel, list[Resolver]]:
    """The latest model that passed, and the node that finds it once another has run."""
    resolver = Resolver(
        strategy_class=LatestBlessedModelStrategy,
        model=Channel(type=standard_artifacts.Model),
        model_blessing=Channel(type=standard_artifacts.ModelBlessing),
    ).with_id(name)
    resolver.add_upstream_node(after)
    return resolver.outputs["model"], [resolver]


def content_version(path: str) -> str:
    """Hashes a file, or all files of a folder, here or in a store: TFX's cache sees paths only.

    Returns:
      16 hexadecimal digits; zeros if there is no such file, which the Trainer will report.
    """
    names = [""] if files.is_file(path) else list_names(path)
    if not names:
        return "0" * 16
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode(errors="surrogateescape") + b"\0")
        for block in files.read_blocks(files.join(path, name) if name else path):
            digest.update(block)
    return digest.hexdigest()[:16]
