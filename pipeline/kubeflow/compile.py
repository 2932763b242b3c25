"""Compiles the pipeline for Kubeflow Pipelines and Vertex AI.

It is the very pipeline that `image-pipeline run` runs, `image_pipeline.pipeline.create_pipeline`,
handed to TFX's `KubeflowV2DagRunner` instead of its `LocalDagRunner`. Compiling proves that every
step can be written down as a container with typed inputs and outputs, and that an engine which
knows nothing of this code finds the order of the steps. It contacts no cluster, bucket or registry,
so whether the image can be pulled, the buckets can be read and the steps have memory enough shows
in a run.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.span_pattern import LATEST, has_span
from image_pipeline.kubeflow.platform import platform_spec
from image_pipeline.kubeflow.steps import check_engine, put_step_options

if TYPE_CHECKING:
    from image_pipeline.config import PipelineConfig

FINGERPRINT_PARAMETER = "images-fingerprint"
SPAN_PARAMETER = "images-span"
STEP = "image_pipeline.kubeflow.step"
"""The module that a step's container runs."""


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

    What the images are is not known before a run, but engines re-use the outputs of a step whose
    parameters are the same. So the fingerprint is a parameter of the run, and without a default:
    a run that does not say which images it means is refused, instead of re-using old ones. Where
    the images are a pattern of spans, which one is another parameter, by default the latest, which
    the step finds itself.

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
      UserError: if the file's ending is none of these, or it cannot be written; if `spans.window`
        is set, since engines have no resolver of spans; or if the engine cannot express one of the
        steps' options (`kubeflow:`).
    """
    if not output_path.endswith((".json", ".yaml", ".yml")):
        raise UserError(f"The output must end in .yaml, .yml or .json, got {output_path!r}.")

    from tfx import v1 as tfx

    from image_pipeline.pipeline import create_pipeline

    parameter = tfx.dsl.experimental.RuntimeParameter
    span = parameter(name=SPAN_PARAMETER, ptype=str, default=LATEST)
    pipeline = create_pipeline(
        config,
        images_dir,
        pipeline_root,
        push_dir,
        parameter(name=FINGERPRINT_PARAMETER, ptype=str),
        beam_args=tuple(beam_args),
        span=span if has_span(images_dir) else None,
    )
    job = _make_runner(image).run(pipeline, write_out=False)
    spec, options = job["pipelineSpec"], config.kubeflow
    _complete_spec(spec, pipeline_root)
    is_vertex = output_path.endswith(".json")
    check_engine(spec, options, is_vertex=is_vertex)
    put_step_options(spec, options, beam_args, config.dataflow)
    _write_job(job, output_path, {} if is_vertex else platform_spec(spec, options))
    return job


def _make_runner(image: str) -> Any:
    from tfx import v1 as tfx

    engine = tfx.orchestration.experimental
    # Kubeflow's open-source engine takes 2.1 only, Vertex AI takes it too.
    return engine.KubeflowV2DagRunner(
        engine.KubeflowV2DagRunnerConfig(default_image=image, use_pipeline_spec_2_1=True)
    )


def _complete_spec(spec: dict[str, Any], pipeline_root: str) -> None:
    """Adds what TFX writes into the job only, and has steps begun by `step`."""
    spec["defaultPipelineRoot"] = pipeline_root  # Kubeflow is given the spec only.
    for executor in spec["deploymentSpec"]["executors"].values():
        if "container" in executor:
            executor["container"]["command"] = ["python", "-m", STEP]
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    if SPAN_PARAMETER in parameters:
        parameters[SPAN_PARAMETER]["defaultValue"] = LATEST


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
