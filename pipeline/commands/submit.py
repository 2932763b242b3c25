"""`image-pipeline submit`, `compile`: a run on Kubeflow Pipelines, a job as a template."""

import os
import sys
import tempfile
from typing import TYPE_CHECKING

import click

from image_pipeline.commands.shared import BEAM, CONFIG, IMAGES, SET, quiet_libraries, say
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


@click.command("submit", short_help="Start a run or a schedule on Kubeflow Pipelines.")
@IMAGES
@click.option("--root", "pipeline_root", required=True, help="URI for the steps' outputs.")
@click.option("--push", "push_dir", required=True, help="URI for models that passed.")
@click.option("--image", required=True, metavar="REGISTRY/NAME:TAG", help="Image of all steps.")
@CONFIG
@SET
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of this run alone, e.g. --parameter 'training={epochs: 3}'. May be repeated.",
)
@click.option("--host", help="Kubeflow's API; by default as kfp finds it.")
@click.option("--namespace", help="Yours, where Kubeflow has many users.")
@click.option("--experiment", help="Where runs are listed; the pipeline's name by default.")
@click.option("--run-name", help="The pipeline's name by default.")
@click.option("--service-account", help="Of the pods (kubeflow.service_account by default).")
@click.option(
    "--recurring", metavar="CRON|INTERVAL", help='A schedule instead of a run: "0 3 * * *" or 6h.'
)
@click.option("--wait", is_flag=True, help="Wait for the run's end, and tell of its steps.")
@BEAM
def submit(
    images_dir: str,
    pipeline_root: str,
    push_dir: str,
    image: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    parameters: tuple[str, ...],
    host: str | None,
    namespace: str | None,
    experiment: str | None,
    run_name: str | None,
    service_account: str | None,
    recurring: str | None,
    wait: bool,
    beam_flags: tuple[str, ...],
) -> None:
    """Compile, upload and start a run on Kubeflow Pipelines; print its link.

    Beam flags go after a separate --. A token is taken from KFP_EXISTING_TOKEN.
    """
    from image_pipeline.components.extras import need

    need("tfx", "`image-pipeline submit`")
    from image_pipeline.config import load_config
    from image_pipeline.kubeflow.client import connect, find_host
    from image_pipeline.kubeflow.compile import compile_pipeline, prepare_options
    from image_pipeline.kubeflow.submit import (
        Submission,
        read_parameters,
        read_schedule,
        submit_run,
        submit_schedule,
        watch_run,
    )

    if wait and recurring:
        raise click.UsageError("--wait is for a single run; leave out --wait or --recurring.")
    config = load_config(config_path, overrides)
    schedule = read_schedule(recurring) if recurring else None
    host = find_host(host)
    config, beam_args, chosen = prepare_options(config, images_dir, beam_flags)
    if chosen:
        say(f"Look at: {chosen}.", err=True)
    with tempfile.TemporaryDirectory() as folder:
        submission = Submission(
            pipeline_path=os.path.join(folder, "pipeline.yaml"),
            pipeline_name=config.name,
            experiment=experiment or config.name,
            run_name=run_name or config.name,
            parameters=read_parameters(parameters, config),
            service_account=service_account or config.kubeflow.service_account,
            namespace=namespace,
        )
        client = connect(host, namespace)  # Before what takes longer.
        where = (pipeline_root, push_dir, image, submission.pipeline_path)
        with quiet_libraries("submit"):
            job = compile_pipeline(config, images_dir, *where, beam_args)
        # Where Kubeflow's pages are, as kfp has it.
        pages = os.environ.get("KF_PIPELINES_UI_ENDPOINT") or host or "/pipeline"
        pages = f"{pages.rstrip('/')}/#"
        if schedule is not None:
            made = submit_schedule(client, host, submission, schedule)
            page = f"{pages}/recurringrun/details/{made.recurring_run_id}"
            say(f"Scheduled {submission.run_name}: {page}")
            return
        run = submit_run(client, host, submission)
        say(f"Started {submission.run_name}: {pages}/runs/details/{run.run_id}")
        if wait:
            steps = job["pipelineSpec"]["root"]["dag"]["tasks"]
            watch_run(client, host, run.run_id, steps, say)
            say("Done.")
