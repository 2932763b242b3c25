"""`image-pipeline compile`: a job as a template that an engine can start at any time."""

import os
import sys

import click

from image_pipeline.commands.shared import BEAM, CONFIG, IMAGES, SET, quiet_libraries, say
from image_pipeline.temporary import delete_folder


@click.command("compile")
@click.option(
    "--runner",
    required=True,
    type=click.Choice(["dataflow"]),
    help="The engine. (For Kubeflow and Vertex AI, use kubeflow/compile.py.)",
)
@IMAGES
@click.option("--output", "output_dir", required=True, help="URI of the data set.")
@click.option("--template", "template_path", required=True, help="The template: gs://BUCKET/NAME.")
@CONFIG
@SET
@BEAM
def compile_job(
    runner: str,
    images_dir: str,
    output_dir: str,
    template_path: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    beam_flags: tuple[str, ...],
) -> None:
    """Write ingest as a template that Dataflow can run.

    Flags go after a separate --: --project, --region, --temp_location, --sdk_container_image, and
    any other Dataflow flags (--worker_machine_type, --max_num_workers, …).
    """
    from image_pipeline.components import files
    from image_pipeline.components.beam.args import complete_beam_args
    from image_pipeline.components.sources.span_pattern import has_span
    from image_pipeline.config import load_config
    from image_pipeline.run.dataflow import check_remote
    from image_pipeline.run.engine import check_engine

    if has_span(images_dir):
        raise click.UsageError(f"--images must be one folder, got {images_dir!r}; give the span's.")
    if not files.is_local(template_path):
        check_remote(images=images_dir, output=output_dir)
    config = load_config(config_path, overrides)
    named = [f"--runner={runner}", f"--template_location={template_path}"]
    beam_args = complete_beam_args([*named, *beam_flags])
    with quiet_libraries("compile"):
        check_engine(beam_args)
        from image_pipeline.run.template import write_template

        write_template(images_dir, output_dir, config.ingest, beam_args)
    where = " It names folders of this machine." if files.is_local(images_dir) else ""
    say(f"Wrote {template_path}.{where}")
    _end_process()


def _end_process() -> None:
    """Avoids Python's shutdown, in which threads of Beam and Google's libraries sometimes crash."""
    sys.stdout.flush()
    delete_folder()
    os._exit(0)
