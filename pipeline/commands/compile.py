"""`image-pipeline compile`: a job as a template that an engine can start at any time."""

import os
import sys
from typing import TYPE_CHECKING

import click

from image_pipeline.commands.shared import BEAM, CONFIG, SET, quiet_libraries, say
from image_pipeline.temporary import delete_folder

if TYPE_CHECKING:
    from image_pipeline.config import PipelineConfig
    from image_pipeline.run.template import AnalysisJob, IngestJob


@click.command("compile", short_help="Write ingest and the analysis as a Dataflow template.")
@click.option(
    "--runner",
    required=True,
    type=click.Choice(["dataflow"]),
    help="The engine. (For Kubeflow and Vertex AI, use kubeflow/compile.py.)",
)
@click.option("--images", "images_dir", help="URI of a folder or table of images, to ingest.")
@click.option("--output", "data_dir", required=True, help="URI of the data set.")
@click.option("--graph", "graph_dir", help="URI for the transform graph, to analyse the data set.")
@click.option("--template", required=True, help="The template: gs://BUCKET/NAME.")
@CONFIG
@SET
@BEAM
def compile_job(
    runner: str,
    images_dir: str | None,
    data_dir: str,
    graph_dir: str | None,
    template: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    beam_flags: tuple[str, ...],
) -> None:
    """Write ingest, the analysis, or one after the other, as a template that Dataflow can run.

    --images ingests into the data set, --graph analyses it; with both, one job does both. Where it
    runs is said under dataflow: in the configuration, or by flags after a separate --: --project,
    --region, --temp_location, --sdk_container_image, ….
    """
    from image_pipeline.components import files
    from image_pipeline.config import load_config
    from image_pipeline.run.engine import choose_engine

    _check_places(images_dir, data_dir, graph_dir, template)
    config = load_config(config_path, overrides)
    named = [f"--runner={runner}", f"--template_location={template}"]
    with quiet_libraries("compile"):
        beam_args = choose_engine([*named, *beam_flags], config.dataflow)
        from image_pipeline.components.beam.flags import find_given
        from image_pipeline.run.dataflow import check_own_modules, find_own_modules
        from image_pipeline.run.template import write_template

        function = None if graph_dir is None else config.transform.preprocessing_fn
        own = find_own_modules(images_dir, function)
        needed = check_own_modules(own, find_given(beam_args))  # The workers' image must have them.
        ingest, analysis = _choose_jobs(config, images_dir, graph_dir)
        write_template(data_dir, beam_args, ingest, analysis)
    where = " It names folders of this machine." if files.is_local(data_dir) else ""
    say(f"Wrote {template}.{where}")
    if needed:
        say(f"The workers' image must have your own modules: {', '.join(needed)}.")
    _end_process()


def _check_places(
    images_dir: str | None, data_dir: str, graph_dir: str | None, template: str
) -> None:
    from image_pipeline.components import files
    from image_pipeline.components.sources.span_pattern import has_span
    from image_pipeline.run.dataflow import check_remote

    if images_dir is None and graph_dir is None:
        raise click.UsageError("give --images to ingest them, --graph to analyse, or both.")
    if images_dir is not None and has_span(images_dir):
        raise click.UsageError(f"--images must be one folder, got {images_dir!r}; give the span's.")
    if not files.is_local(template):
        places = {"images": images_dir, "output": data_dir, "graph": graph_dir}
        check_remote(**{name: path for name, path in places.items() if path is not None})


def _choose_jobs(
    config: "PipelineConfig", images_dir: str | None, graph_dir: str | None
) -> tuple["IngestJob | None", "AnalysisJob | None"]:
    from image_pipeline.components.feeding.rules import PIXELS
    from image_pipeline.components.rules import check
    from image_pipeline.run.template import AnalysisJob, IngestJob

    if images_dir is not None and graph_dir is not None:
        check(PIXELS, stored=config.ingest.prepare, images="the images", view=config.view)
    return (
        None if images_dir is None else IngestJob(images_dir, config.ingest),
        None if graph_dir is None else AnalysisJob(graph_dir, config.view, config.transform),
    )


def _end_process() -> None:
    """Avoids Python's shutdown, in which threads of Beam and Google's libraries sometimes crash."""
    sys.stdout.flush()
    delete_folder()
    os._exit(0)
