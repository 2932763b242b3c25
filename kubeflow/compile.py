"""Compiles the pipeline for Kubeflow Pipelines and Vertex AI.

It is the very pipeline that `image-pipeline run` runs, `image_pipeline.pipeline.create_pipeline`,
handed to TFX's `KubeflowV2DagRunner` instead of its `LocalDagRunner`. Compiling proves that every
step can be written down as a container with typed inputs and outputs, and that an engine which
knows nothing of this code finds the order of the steps. It contacts no cluster, bucket or registry,
so whether the image can be pulled, the buckets can be read and the steps have memory enough shows
in a run.

This folder is no package: PyPI has a package named kubeflow, which it would shadow.
"""

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from image_pipeline.commands.shared import EndsIfInterrupted, say
from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.span_pattern import LATEST, has_span

if TYPE_CHECKING:
    from image_pipeline.config import PipelineConfig

FINGERPRINT_PARAMETER = "images-fingerprint"
SPAN_PARAMETER = "images-span"


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
      UserError: if the file's ending is none of these, or it cannot be written; or if
        `spans.window` is set, since engines have no resolver of spans.
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
    _complete_spec(job["pipelineSpec"], pipeline_root)
    _write_job(job, output_path)
    return job


def _make_runner(image: str) -> Any:
    from tfx import v1 as tfx

    engine = tfx.orchestration.experimental
    # Kubeflow's open-source engine takes 2.1 only, Vertex AI takes it too.
    return engine.KubeflowV2DagRunner(
        engine.KubeflowV2DagRunnerConfig(default_image=image, use_pipeline_spec_2_1=True)
    )


def _complete_spec(spec: dict[str, Any], pipeline_root: str) -> None:
    """Adds what TFX writes into the job only, since Kubeflow is given the spec only."""
    spec["defaultPipelineRoot"] = pipeline_root
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    if SPAN_PARAMETER in parameters:
        parameters[SPAN_PARAMETER]["defaultValue"] = LATEST


def _write_job(job: dict[str, Any], path: str) -> None:
    """Writes the whole job as JSON, or its spec as YAML."""
    if path.endswith(".json"):
        text = json.dumps(job, indent=1, sort_keys=True) + "\n"
    else:
        import yaml

        text = yaml.safe_dump(job["pipelineSpec"])
    try:
        with files.write_atomically(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise UserError(f"Cannot write the output {path!r}: {error.strerror}.") from error


@click.command(
    cls=EndsIfInterrupted,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--images", "images_dir", required=True, help="URI of the images.")
@click.option("--root", "pipeline_root", required=True, help="URI for the steps' outputs.")
@click.option("--push", "push_dir", required=True, help="URI for models that passed.")
@click.option("--image", required=True, metavar="REGISTRY/NAME:TAG", help="Image of all steps.")
@click.option("--output", "output_path", required=True, help="pipeline.yaml, or .json for Vertex.")
@click.option("--config", "config_path", help="YAML file; overrides the defaults.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override one value, e.g. --set training.epochs=3. May be repeated.",
)
@click.argument("beam_flags", nargs=-1, type=click.UNPROCESSED)
def compile_command(
    images_dir: str,
    pipeline_root: str,
    push_dir: str,
    image: str,
    output_path: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    beam_flags: tuple[str, ...],
) -> None:
    """Compile the pipeline for Kubeflow Pipelines or Vertex AI.

    Beam flags go after a separate --, for example: -- --runner=DataflowRunner --project=…
    """
    from image_pipeline.components.beam.args import complete_beam_args
    from image_pipeline.components.ingest.complete_options import complete_options
    from image_pipeline.components.ingest.source_kind import TABLE, kind_of
    from image_pipeline.config import load_config
    from image_pipeline.run.dataflow import check_dataflow_flags
    from image_pipeline.run.engine import split_flags
    from image_pipeline.show.terminal import quiet_terminal

    config = load_config(config_path, overrides)
    if kind_of(images_dir) is TABLE:  # What its columns are is then part of the pipeline.
        ingest = complete_options(images_dir, config.ingest)
        config = config.model_copy(update={"ingest": ingest})
    beam_args = complete_beam_args(beam_flags)
    given = split_flags(beam_args)
    # The steps, not this machine, need the credentials.
    if given.get("runner") == "DataflowRunner":
        check_dataflow_flags(given)
    # Drops what libraries say while they are imported; errors still get through.
    with quiet_terminal(os.devnull):
        job = compile_pipeline(
            config, images_dir, pipeline_root, push_dir, image, output_path, beam_args
        )
    steps = job["pipelineSpec"]["root"]["dag"]["tasks"]
    say(f"Wrote {output_path}, {len(steps)} steps: {', '.join(sorted(steps))}.")
    say(f"Give each run the parameter {FINGERPRINT_PARAMETER}: new when the images are.")
    if has_span(images_dir):
        say(f"The parameter {SPAN_PARAMETER} chooses a span; without it, the latest is run.")


def main() -> None:
    """Runs the command line as `image-pipeline` does: one message for an error, and its codes."""
    from image_pipeline import cli

    cli.main(compile_command)


if __name__ == "__main__":
    main()
