"""The command line. Heavy imports wait until a command needs them, so `--help` is instant."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from components.errors import UserError
from pipeline.commands.analyze import analyze
from pipeline.commands.compile import compile_job
from pipeline.commands.doctor import doctor
from pipeline.commands.init import init
from pipeline.commands.inspect import inspect
from pipeline.commands.plan import plan
from pipeline.commands.preview import preview
from pipeline.commands.quarantine import quarantine
from pipeline.commands.report import report
from pipeline.commands.shared import (
    BEAM,
    CONFIG,
    FROM,
    IMAGES,
    JSON,
    OUTPUT,
    QUIET,
    SET,
    SPAN,
    TO,
    UnexpectedError,
    open_terminal,
)
from pipeline.commands.verify import verify
from pipeline.part import Part

EXIT_NOT_PUSHED = 3


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="image-pipeline")
def cli() -> None:
    """Raw images to a pushed model, through TFX and Apache Beam.

    Exit codes: 0 done, 1 something you can put right, 2 wrong usage, 3 done, but the model was not
    good enough to be pushed, 4 a bug.
    """


@cli.command()
@IMAGES
@OUTPUT
@CONFIG
@SET
@JSON
@QUIET
@SPAN
@FROM
@TO
@click.option(
    "--profile",
    "profile_steps",
    type=click.IntRange(1, 50),
    metavar="STEPS",
    help="Also trace so many steps in the middle of training for TensorBoard (1 to 50).",
)
@BEAM
def run(
    images_dir: str,
    output_dir: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    span: str | None,
    first: str | None,
    last: str | None,
    profile_steps: int | None,
    beam_flags: tuple[str, ...],
) -> None:
    """Run the pipeline, or a part of it, on a folder of images.

    Beam flags go behind a separate --, for example: -- --direct_running_mode=multi_processing
    """
    from pipeline.config import load_config

    if profile_steps is not None:
        overrides = (*overrides, f"training.profile_steps={profile_steps}")
    config = load_config(config_path, overrides)
    part = Part(first, last)
    _run_pipeline(config, images_dir, output_dir, beam_flags, as_json, quiet, span, part)


@cli.command()
@click.option("--output", "output_dir", default="demo-output", show_default=True)
@JSON
@QUIET
def demo(output_dir: str, as_json: bool, quiet: bool) -> None:
    """Run the whole pipeline on 1,797 handwritten digits."""
    from pipeline.demo import DEMO_CONFIG, write_digits

    images_dir = os.path.join(output_dir, "images")
    write_digits(images_dir)
    _run_pipeline(DEMO_CONFIG, images_dir, os.path.join(output_dir, "run"), (), as_json, quiet)


@cli.command()
@IMAGES
@OUTPUT
@CONFIG
@SET
@JSON
@QUIET
@BEAM
def ingest(
    images_dir: str,
    output_dir: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    beam_flags: tuple[str, ...],
) -> None:
    """Write a folder of images as shuffled, sharded TFRecords, without TFX.

    The bytes are the same as the pipeline's. An interrupted ingest, started again, goes on.
    """
    from pipeline.config import load_config
    from pipeline.engine import choose_engine
    from pipeline.preflight import check_output, survey_images

    options = load_config(config_path, overrides).ingest
    beam_args = choose_engine(beam_flags)
    survey_images(images_dir, options)
    check_output(output_dir, images_dir)
    with open_terminal(os.path.join(output_dir, ".ingest.log")) as console:
        from pipeline.ingest import ingest_folder, print_ingest
        from pipeline.progress import ComponentProgress

        with ComponentProgress(None if as_json or quiet else console) as progress:
            progress.start("ingest")
            summary = ingest_folder(images_dir, output_dir, options, beam_args)
        if not (as_json or quiet):
            print_ingest(summary, output_dir, console)
    if as_json:
        click.echo(json.dumps(summary))


def _run_pipeline(
    config: Any,
    images_dir: str,
    output_dir: str,
    beam_flags: Sequence[str],
    as_json: bool,
    quiet: bool,
    span: str | None = None,
    part: Part = Part(),  # noqa: B008  (frozen)
) -> None:
    """Checks what can be checked at once, runs, and tells what happened."""
    from pipeline.engine import choose_engine
    from pipeline.preflight import check_classes, check_output
    from pipeline.spans import find_images, survey_source

    beam_args = choose_engine(beam_flags)
    source = find_images(images_dir, span, config.spans.window)
    survey, earlier = survey_source(source, config.ingest)
    check_classes(survey, images_dir, config.ingest)
    for folder in source.folders:
        check_output(output_dir, folder.path)
    log_path = os.path.join(output_dir, "run.log")
    silent = as_json or quiet
    with open_terminal(log_path) as console:
        if not silent:
            where = f" in {len(source.folders):,} spans" if earlier else ""
            console.print(
                f"{survey.found:,} files{where}, {len(survey.classes)} classes; {beam_args[0]}"
            )
        summary = _run_with_progress(
            log_path,
            None if silent else console,
            config=config,
            images_dir=images_dir,
            output_dir=output_dir,
            fingerprint=survey.fingerprint,
            beam_args=beam_args,
            span=source.span,
            earlier=earlier,
            part=part,
        )
        if not silent:
            from pipeline.summary import print_summary

            print_summary(summary, console)
    if as_json:
        click.echo(json.dumps(summary))
    if summary.get("blessed") is False:
        sys.exit(EXIT_NOT_PUSHED)


def _run_with_progress(
    log_path: str, console: Any, *, output_dir: str, **options: Any
) -> dict[str, Any]:
    """Runs with a bar; `options` are the further arguments of `run_locally`."""
    from pipeline.progress import ComponentProgress

    with ComponentProgress(console) as progress:
        progress.start("importing TFX")
        from pipeline.local import run_locally
        from pipeline.summary import is_whole, summarize_run

        runs = run_locally(
            output_dir=output_dir, on_start=progress.start, on_finish=progress.finish, **options
        )
        summary = summarize_run(runs, log_path)
    if is_whole(summary):  # A part's would pass for a whole run's, which the folder may hold.
        with open(os.path.join(output_dir, "summary.json"), "w", encoding="utf-8") as file:
            json.dump(summary, file, indent=1)
    return summary


cli.add_command(analyze)
cli.add_command(compile_job)
cli.add_command(doctor)
cli.add_command(init)
cli.add_command(inspect)
cli.add_command(plan)
cli.add_command(preview)
cli.add_command(quarantine)
cli.add_command(report)
cli.add_command(verify)


def main() -> None:
    """Runs the command line; errors become one message and an exit code."""
    # TensorFlow reads these when it is imported; both lines are about messages only.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        cli()
    except UserError as error:
        click.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(1)
    except UnexpectedError as error:
        first_line = str(error).splitlines()[0][:300]
        click.secho(f"Unexpected error: {first_line}", fg="red", err=True)
        click.echo(f"The details are in {error.log_path}", err=True)
        sys.exit(4)
