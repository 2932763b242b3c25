"""`image-pipeline submit`: compile, upload and start a run on Kubeflow Pipelines."""

import os
import tempfile

import click

from image_pipeline.commands.shared import BEAM, CONFIG, IMAGES, SET, quiet_libraries, say


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
