"""What commands share: options, and the terminal during long work. Imports nothing heavy."""

import contextlib
import math
import os
import shutil
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.json_text import JSON_VERSION, to_json
from image_pipeline.components.messages import describe_error
from image_pipeline.components.names import printable_text
from image_pipeline.interrupts import end_if_interrupted, was_interrupted
from image_pipeline.temporary import make_lasting_folder


def complete_option(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The options' keys that begin like this."""
    from image_pipeline.option_list import first_sentence, list_options

    options = [option for group in list_options() for option in group.options]
    return [
        CompletionItem(option.key, help=first_sentence(option.meaning))
        for option in options
        if option.key.startswith(incomplete)
    ]


def complete_setting(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Continues `KEY=VALUE`: the keys that can be set alone, then their values."""
    from image_pipeline.option_list import list_settable

    key, equals, value = incomplete.partition("=")
    if equals:
        values = next((option.values for option in list_settable() if option.key == key), ())
        return [CompletionItem(f"{key}={each}") for each in values if each.startswith(value)]
    found = (option.key for option in list_settable() if option.key.startswith(key))
    return [CompletionItem(f"{each}=") for each in found]


class _Bash(BashComplete):
    """Bash takes `key=value` for three words, and replaces only the last of them."""

    # No space after a key, which is followed by its value.
    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)",
        "COMPREPLY+=($value)\n            [[ $value == *= ]] && compopt -o nospace",
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is to be completed, and this one."""
        before, current = super().get_completion_args()
        words: list[str] = []
        for word in (*before, current):
            if words and (word == "=" or words[-1].endswith("=")):
                words[-1] += word
            else:
                words.append(word)
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """Of `key=value` the value, since the key stands there already."""
        _, _, value = item.value.partition("=")
        return f"{item.type},{value or item.value}"


add_completion_class(_Bash)


IMAGES = click.option(
    "--images", "images_dir", required=True, help="Folder or table (CSV, …) of images, or its URI."
)
OUTPUT = click.option("--output", "output_dir", required=True, help="Folder for all results.")
CONFIG = click.option("--config", "config_path", help="YAML file; overrides the defaults.")
SET = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_setting,
    help="Override one value, e.g. --set training.epochs=3; `options` lists all. May be repeated.",
)
FOLLOW_LINKS = click.option(
    "--follow-links",
    is_flag=True,
    help="Also follow links and rows that lead out of the folder (ingest.follow_links=true).",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print a machine-readable summary.")
QUIET = click.option("--quiet", is_flag=True, help="Print nothing but errors.")
SPAN = click.option(
    "--span",
    metavar="NUMBER|DATE",
    help="Which folder to use if --images is a pattern such as photos/day-{SPAN} or "
    "photos/{YYYY}-{MM}-{DD}; the latest by default.",
)
FROM = click.option(
    "--from",
    "first",
    metavar="COMPONENT",
    help="Run this and what depends on it; take what comes before from the latest run.",
)
TO = click.option("--to", "last", metavar="COMPONENT", help="Run this and what it needs, and stop.")
SEED = click.option(
    "--seed",
    type=click.IntRange(-(2**63), 2**63 - 1),
    help="Seed of training, instead of the option training.seed.",
)
BEAM = click.argument("beam_flags", nargs=-1, type=click.UNPROCESSED)


class FiniteRange(click.FloatRange):
    """A number of a range; Python reads `nan` and `inf` as numbers of any range, too."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Reads it, and refuses what is not finite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def say(text: object, **style: Any) -> None:
    """Prints text, with names made safe for the terminal."""
    click.secho(printable_text(str(text)), **style)


def say_json(found: Mapping[str, Any]) -> None:
    """Prints what `--json` asks for: an object, and the version of its form."""
    click.echo(to_json({"version": JSON_VERSION, **found}))


def add_follow_links(overrides: tuple[str, ...], follow_links: bool) -> tuple[str, ...]:
    """The overrides, with that of `FOLLOW_LINKS` if it is set."""
    return (*overrides, "ingest.follow_links=true") if follow_links else overrides


@contextlib.contextmanager
def open_terminal(log_path: str, quiet: bool = False) -> Iterator[Any]:
    """Gives a console; sends the libraries' messages and unexpected errors to a log.

    The log of an output behind a URI is on this machine, and kept only after an unexpected error.
    """
    from image_pipeline.components.files import is_local
    from image_pipeline.show.terminal import quiet_terminal

    if not is_local(log_path):
        with quiet_libraries(
            os.path.splitext(log_path.rpartition("/")[2])[0].strip(".")
        ) as console:
            console.quiet = quiet
            yield console
        return
    with quiet_terminal(log_path) as console:
        console.quiet = quiet
        try:
            yield console
        except UserError:
            raise
        except Exception as error:
            if known := find_user_error(error):
                raise known from error
            with contextlib.suppress(OSError):  # The log's disk may be full.
                traceback.print_exc()
            raise UnexpectedError(describe_error(error), log_path) from error


@contextlib.contextmanager
def quiet_libraries(command: str) -> Iterator[Any]:
    """Like `open_terminal`, but the log is kept only after an unexpected error."""
    with tempfile.TemporaryDirectory() as log_dir:
        try:
            with open_terminal(os.path.join(log_dir, f"{command}.log")) as console:
                yield console
        except UnexpectedError as error:
            if was_interrupted():
                raise
            error.log_path = shutil.move(error.log_path, make_lasting_folder())
            raise


class EndsIfInterrupted(click.Command):
    """A command that ends with this project's own line instead of Click's "Aborted!"."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        finally:
            end_if_interrupted()


class UnexpectedError(Exception):
    """An unforeseen error; its traceback is in the log file."""

    def __init__(self, message: str, log_path: str):
        super().__init__(message)
        self.log_path = log_path
