"""Beam's flags, read as Beam reads them, and this project's own among them.

Apart from `args`, since this imports Beam.
"""

import argparse
import contextlib
import io
import re
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import find_line, suggest


class JobOptions(PipelineOptions):
    """Beam flags of this project."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--start_timeout_s",
            type=float,
            default=600.0,
            help="Cancel the job if no worker has started after this many seconds.",
        )


def parse_flags(beam_args: Sequence[str]) -> PipelineOptions:
    """Reads flags; those that Beam does not know are ignored.

    Raises:
      UserError: in Beam's words, for a value of a wrong type.
    """
    options = PipelineOptions(list(beam_args))
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # Where argparse explains its usage.
            options.get_all_options(retain_unknown_options=True)
    except (SystemExit, ValueError) as error:
        raise reject_flags(error) from error
    return options


def make_pipeline(beam_args: Sequence[str]) -> beam.Pipeline:
    """An empty pipeline.

    Raises:
      UserError: in Beam's words, if it rejects them.
    """
    try:
        return beam.Pipeline(options=parse_flags(beam_args))
    except ValueError as error:
        raise reject_flags(error) from error


def reject_flags(error: SystemExit | ValueError) -> UserError:
    """What Beam says about its flags, in one line."""
    # A value of the wrong type makes argparse exit; the reason is only in the error before.
    reason = error.__context__ if isinstance(error, SystemExit) else error
    return UserError(f"Beam rejects its flags: {find_line(str(reason))}")


def find_given(beam_args: Sequence[str]) -> dict[str, Any]:
    """What flags set, by the names that Beam's options have; all of them must be known to Beam.

    Raises:
      UserError: for a flag that nobody reads: Beam would only log it, and go on without; or for one
        whose value is empty, as an unset variable of the shell leaves it.
    """
    flags = list(beam_args)
    if empty := [flag for flag in flags if flag.endswith("=")]:
        raise UserError(f"the Beam flag {empty[0]} has no value; give one, or leave it out.")

    def refuse_unknown(parser: argparse.ArgumentParser) -> None:
        _, unknown = parser.parse_known_args(flags)
        if unknown:
            # Its help names all that a parser knows, before two spaces.
            named = re.findall(r"(?m)^  (-.*?)(?:  |$)", parser.format_help())
            known = [name for names in named for name in re.findall(r"--[\w-]+", names)]
            hint = suggest(unknown[0].partition("=")[0], known)
            raise UserError(
                f"unknown Beam flag {unknown[0]!r}; {hint}"
                "Beam's documentation lists them, and each is written --name=value."
            )

    return parse_flags(flags).get_all_options(
        drop_default=True, add_extra_args_fn=refuse_unknown, retain_unknown_options=True
    )
