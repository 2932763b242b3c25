"""The command line. Heavy imports wait until a command needs them, so `--help` is instant."""

import os
import sys

import click

from components.errors import UserError
from pipeline.commands.analyze import analyze
from pipeline.commands.compile import compile_job
from pipeline.commands.doctor import doctor
from pipeline.commands.ingest import ingest
from pipeline.commands.init import init
from pipeline.commands.inspect import inspect
from pipeline.commands.plan import plan
from pipeline.commands.preview import preview
from pipeline.commands.quarantine import quarantine
from pipeline.commands.report import report
from pipeline.commands.run import demo, run
from pipeline.commands.shared import UnexpectedError
from pipeline.commands.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="image-pipeline")
def cli() -> None:
    """Raw images to a pushed model, through TFX and Apache Beam.

    Exit codes: 0 done, 1 something you can put right, 2 wrong usage, 3 done, but the model was not
    good enough to be pushed, 4 a bug.
    """


for command in (
    analyze,
    compile_job,
    demo,
    doctor,
    ingest,
    init,
    inspect,
    plan,
    preview,
    quarantine,
    report,
    run,
    verify,
):
    cli.add_command(command)


def _make_working_folder_importable() -> None:
    """Lets dotted paths name modules of the folder in which a person stands, here and in workers.

    Behind all else, so that nothing there is taken for an installed package.
    """
    folder = os.getcwd()
    sys.path.append(folder)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, folder])


def main() -> None:
    """Runs the command line; errors become one message and an exit code."""
    # TensorFlow reads these when it is imported; both lines are about messages only.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    _make_working_folder_importable()
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
