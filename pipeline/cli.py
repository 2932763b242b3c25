"""The command line. Heavy imports wait until a command needs them, so `--help` is instant."""

import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Sequence

import click

from image_pipeline.commands.browse import browse, preview
from image_pipeline.commands.doctor import doctor
from image_pipeline.commands.forget import forget
from image_pipeline.commands.ingest import ingest, update
from image_pipeline.commands.init import init
from image_pipeline.commands.options import options
from image_pipeline.commands.plan import plan
from image_pipeline.commands.predict import export, predict
from image_pipeline.commands.quarantine import quarantine
from image_pipeline.commands.report import diff, history, inspect, report
from image_pipeline.commands.run import demo, run
from image_pipeline.commands.seen import seen
from image_pipeline.commands.shared import EndsIfInterrupted, UnexpectedError, say
from image_pipeline.commands.submit import compile_job, submit
from image_pipeline.commands.train import analyze, train
from image_pipeline.commands.verify import verify
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.messages import describe_error
from image_pipeline.components.named_modules import MODULES
from image_pipeline.interrupts import end_if_interrupted, listen, was_interrupted
from image_pipeline.needs import guard_imports
from image_pipeline.temporary import make_lasting_folder, use_folder


class _Group(EndsIfInterrupted, click.Group):
    """All commands."""


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="image-pipeline")
def cli() -> None:
    """From raw images to a pushed model, with TFX and Apache Beam.

    Exit codes: 0 done, 1 an error that you can fix, 2 wrong usage, 3 done, but the model was not
    good enough to be pushed, 4 a bug, 129 stopped by SIGHUP (its terminal was closed), 130 by
    Ctrl-C, 143 by SIGTERM.
    """


for command in (
    analyze,
    browse,
    compile_job,
    demo,
    diff,
    doctor,
    export,
    forget,
    history,
    ingest,
    init,
    inspect,
    options,
    plan,
    predict,
    preview,
    quarantine,
    report,
    run,
    seen,
    submit,
    train,
    update,
    verify,
):
    cli.add_command(command)


def main(command: click.Command = cli) -> None:
    """Runs a command line in this process; errors become one message and an exit code."""
    # TensorFlow reads these when it is imported; both only concern messages.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # TFX's import makes a million objects that stay: looked through as often as Python does by
    # default, they cost 4 s of CPU while they are made, and 4 more at the end of the process.
    gc.set_threshold(20_000, 20, 20)
    # Options may name modules of the current folder, here and in workers. Nothing else looks there,
    # not even `python -m`, which Beam starts workers with.
    with contextlib.suppress(FileNotFoundError):  # The folder was deleted.
        os.environ[MODULES] = os.getcwd()
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        use_folder()
        listen()
    except (UserError, OSError, RuntimeError) as error:
        if not (known := find_user_error(error)):
            raise
        say(f"Error: {known}", fg="red", err=True)
        sys.exit(1)
    try:
        with guard_imports():
            sys.exit(call(command=command))
    finally:
        end_if_interrupted()
        gc.freeze()


def call(arguments: Sequence[str] | None = None, command: click.Command = cli) -> int:
    """Runs a command, says what went wrong, and gives the exit code.

    Args:
      arguments: the command's arguments; None for this process's.
      command: the command line.
    """
    try:
        code = command.main(arguments, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except click.Abort:
        say("Aborted!", err=True)
        return 1
    except click.ClickException as error:
        _tell_usage(error)
        return error.exit_code
    except UserError as error:
        say(f"Error: {error}", fg="red", err=True)
        return 1
    except UnexpectedError as error:
        _tell_unexpected(str(error), error.log_path)
        return 4
    except Exception as error:  # Unforeseen, and before the command opened a log, or after it.
        if known := find_user_error(error):  # The disk behind stdout is full.
            say(f"Error: {known}", fg="red", err=True)
            return 1
        log_path = os.path.join(make_lasting_folder(), "error.log")
        with open(log_path, "w", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        _tell_unexpected(describe_error(error), log_path)
        return 4
    return 0


def _tell_usage(error: click.ClickException) -> None:
    """What is wrong, and where the right usage is, in two lines instead of Click's four or more."""
    context = getattr(error, "ctx", None)
    if context is None or isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()  # The help itself, if no command was given.
        return
    say(f"Error: {error.format_message()}", fg="red", err=True)
    say(f"Try '{context.command_path} --help'.", err=True)


def _tell_unexpected(message: str, log_path: str) -> None:
    if not was_interrupted():
        say(f"Unexpected error: {message}", fg="red", err=True)
        say(f"The details are in {log_path}", err=True)


if __name__ == "__main__":
    main()
