"""Compiles the pipeline for Kubeflow Pipelines and Vertex AI.

It is the very pipeline that `image-pipeline run` runs, `image_pipeline.pipeline.create_pipeline`,
handed to TFX's `KubeflowV2DagRunner` instead of its `LocalDagRunner`. Compiling proves that every
step can be written down as a container with typed inputs and outputs, and that an engine which
knows nothing of this code finds the order of the steps. It contacts no cluster, bucket or registry,
so whether the image can be pulled, the buckets can be read and the steps have memory enough shows
in a run.
"""

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from image_pipeline.components import files
from image_pipeline.components.beam.args import complete_beam_args
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.span_pattern import LATEST
from image_pipeline.init.choose_steps import complete_steps
from image_pipeline.kubeflow import parameters
from image_pipeline.kubeflow.step import COPIED
from image_pipeline.kubeflow.steps import (
    check_engine,
    check_remote_beam,
    platform_spec,
    put_step_options,
)
from image_pipeline.run.dataflow import add_dataflow_options, check_dataflow_flags
from image_pipeline.run.engine import DATAFLOW

if TYPE_CHECKING:
    from image_pipeline.config import PipelineConfig

STEP = "image_pipeline.kubeflow.step"
"""The module that a step's container runs."""
_INGEST = "ImageExampleGen"


def prepare_options(
    config: "PipelineConfig", images_dir: str, beam_flags: Sequence[str]
) -> tuple["PipelineConfig", list[str], str]:
    """Completes what a person gave: what a table or a folder here means, and flags of Beam.

    What lies elsewhere is understood by the step that ingests it, which refuses what is unclear.

    Returns:
      The configuration, the flags, and what `complete_steps` says.

    Raises:
      UserError: if the table cannot be read, a folder may mean several things, or flags are missing
        that Dataflow needs.
    """
    listing = None
    if kind_of(images_dir).is_table:  # What its columns are is then part of the pipeline.
        ingest = complete_options(images_dir, config.ingest)
        config = config.model_copy(update={"ingest": ingest})
    elif os.path.exists(images_dir):
        listing = list_images(images_dir, config.ingest)
        config = config.model_copy(update={"ingest": listing.options})
    config, chosen = complete_steps(config, listing)
    beam_args = complete_beam_args(beam_flags)
    if DATAFLOW in beam_args:  # The steps, not this machine, need the credentials.
        beam_args = add_dataflow_options(beam_args, config.dataflow)
        check_dataflow_flags(beam_args)
    return config, beam_args, chosen


def compile_pipeline(
    config: "PipelineConfig",
    images_dir: str,
    pipeline_root: str,
    push_dir: str,
    image: str,
    output_path: str,
    beam_args: Sequence[str] = (),
) -> dict[str, Any]:
    """Compiles the pipeline and writes it to a file.

    What is given here are defaults: each run may name other images, another span of a pattern,
    another folder for models and other options (`parameters`).

    Engines reuse the outputs of a step whose parameters are the same, and images can change under
    the same name. Whoever starts a run, or a schedule, cannot know their fingerprint. So ingest
    always runs, and computes the fingerprint itself, unless `kubeflow:` switches its caching on:
    then each run must give a text that identifies the images, and is refused without.

    Args:
      config: every component's options.
      images_dir: the URI of the images, as the containers see it; or a pattern of spans.
      pipeline_root: the URI below which the steps' outputs are kept.
      push_dir: the URI to which a blessed model is pushed.
      image: the container image of all steps.
      output_path: .yaml for Kubeflow (the pipeline's spec) or .json for Vertex AI (a job with it).
      beam_args: Beam flags of all steps; they name a runner.

    Returns:
      The job, JSON's way: its `pipelineSpec` is the pipeline.

    Raises:
      UserError: if the file's ending is none of these, or it cannot be written; if training is on
        several machines; if the engine does not know the root's store; if `spans.window`
        is set, since engines have no resolver of spans; if the engine cannot express one of the
        steps' options (`kubeflow:`); or if Beam's workers could not write a step's outputs.
    """
    if not output_path.endswith((".json", ".yaml", ".yml")):
        raise UserError(f"The output must end in .yaml, .yml or .json, got {output_path!r}.")
    if config.training.strategy == "multi_worker":
        raise UserError(
            "training.strategy=multi_worker trains in processes that are started on each machine, "
            "but a step of a pipeline is one; start kubeflow/tfjob.yaml behind a pipeline that "
            "ends with ImageTransform, or set training.strategy=mirrored."
        )
    is_vertex = output_path.endswith(".json")
    _check_root(pipeline_root, is_vertex=is_vertex)

    from tfx import v1 as tfx

    from image_pipeline.pipeline import create_pipeline

    parameter = tfx.dsl.experimental.RuntimeParameter
    pipeline = create_pipeline(
        config,
        parameter(name=parameters.IMAGES, ptype=str, default=images_dir),
        pipeline_root,
        push_dir,
        parameter(name=parameters.FINGERPRINT, ptype=str),
        beam_args=tuple(beam_args),
        span=parameter(name=parameters.SPAN, ptype=str, default=LATEST),
    )
    engine = tfx.orchestration.experimental
    # Kubeflow's open-source engine takes 2.1 only, Vertex AI takes it too.
    runner = engine.KubeflowV2DagRunner(
        engine.KubeflowV2DagRunnerConfig(default_image=image, use_pipeline_spec_2_1=True)
    )
    job = runner.run(pipeline, write_out=False)
    spec, options = job["pipelineSpec"], config.kubeflow
    # TFX writes the root into the job only, and Kubeflow is given the spec only.
    spec["defaultPipelineRoot"] = pipeline_root
    for executor in spec["deploymentSpec"]["executors"].values():
        if "container" in executor:
            executor["container"]["command"] = ["python", "-m", STEP]
    _put_parameters(spec, config, images_dir, push_dir)
    check_engine(spec, options, is_vertex=is_vertex)
    put_step_options(spec, options, beam_args, config.dataflow)
    check_remote_beam(spec, pipeline_root)
    _write_job(job, output_path, {} if is_vertex else platform_spec(spec, options))
    return job


def _check_root(pipeline_root: str, *, is_vertex: bool) -> None:
    """Refuses stores that the engine copies nothing from and to. Folders may be shared ones."""
    engine, schemes = ("Vertex AI", ["gs"]) if is_vertex else ("Kubeflow", ["gs", *COPIED])
    scheme, is_uri, _ = pipeline_root.partition("://")
    if is_uri and scheme not in schemes:
        raise UserError(
            f"The root must be at {' or '.join(f'{each}://' for each in schemes)} for {engine}, "
            f"got {pipeline_root!r}."
        )


def _put_parameters(
    spec: dict[str, Any], config: "PipelineConfig", images_dir: str, push_dir: str
) -> None:
    """Gives the pipeline the run's parameters, and says whether ingest's output may be reused."""
    is_reused = config.kubeflow.of_step(_INGEST).caching is True
    defaults = {
        parameters.IMAGES: images_dir,
        parameters.SPAN: LATEST,
        parameters.FINGERPRINT: None if is_reused else "",
        parameters.MODELS: push_dir,
    }
    parameters.put_parameters(spec, defaults)
    spec["root"]["dag"]["tasks"][_INGEST]["cachingOptions"] = {"enableCache": is_reused}


def _write_job(job: dict[str, Any], path: str, platform: dict[str, Any]) -> None:
    """Writes the whole job as JSON, or its spec as YAML, followed by what its pods are like."""
    if path.endswith(".json"):
        text = json.dumps(job, indent=1, sort_keys=True) + "\n"
    else:
        import yaml

        parts = [job["pipelineSpec"], platform] if platform else [job["pipelineSpec"]]
        text = yaml.safe_dump_all(parts)
    try:
        with files.write_atomically(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise UserError(f"Cannot write the output {path!r}: {error.strerror}.") from error
