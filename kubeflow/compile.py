"""The command line of `image_pipeline.kubeflow.compile`: for Kubeflow Pipelines and Vertex AI.

This folder is no package: PyPI has a package named kubeflow, which it would shadow.
"""

import os

import click

from image_pipeline.commands.shared import EndsIfInterrupted, say
from image_pipeline.components.sources.span_pattern import has_span
from image_pipeline.kubeflow.compile import FINGERPRINT_PARAMETER, SPAN_PARAMETER, compile_pipeline


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
    from image_pipeline.run.dataflow import add_dataflow_options, check_dataflow_flags
    from image_pipeline.run.engine import DATAFLOW
    from image_pipeline.show.terminal import quiet_terminal

    config = load_config(config_path, overrides)
    if kind_of(images_dir) is TABLE:  # What its columns are is then part of the pipeline.
        ingest = complete_options(images_dir, config.ingest)
        config = config.model_copy(update={"ingest": ingest})
    beam_args = complete_beam_args(beam_flags)
    if DATAFLOW in beam_args:  # The steps, not this machine, need the credentials.
        beam_args = add_dataflow_options(beam_args, config.dataflow)
        check_dataflow_flags(beam_args)
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
