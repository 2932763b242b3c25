"""Beam's flags: which runner runs and in which mode, always named; and what they set."""

import argparse
import contextlib
import io
import re
from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import find_line, suggest

# Beam's plain DirectRunner first tries to fetch and start another runner, so the engine behind it
# is named. One worker: parallelism comes from the pools of threads inside the tasks. Unless a flag
# says where workers get their code, TFX packs itself up for every Beam component: 1 to 2 s of CPU,
# and 44 MB that stay in the temporary folder. The local runner would never use them.
LOCAL_BEAM_ARGS = (
    "--runner=FnApiRunner",
    "--direct_running_mode=in_memory",
    "--sdk_container_image=none",
)

# Tasks have threads of their own; a process for each core would only hold all memory once more.
# Functions are named, not pickled, so nothing of the main module is needed, which Beam would send.
DATAFLOW_ARGS = ("--experiments=no_use_multiple_sdk_containers", "--no_save_main_session")
# What is in a flag that says so, or otherwise.
_DATAFLOW_OPTIONS = ("use_multiple_sdk_containers", "save_main_session")

_RUNNERS = (
    *("FnApiRunner", "DirectRunner", "FlinkRunner", "SparkRunner"),
    *("PrismRunner", "PortableRunner", "DataflowRunner"),
)
_REFUSED = {
    "DaskRunner": "it gives wrong results, silently, where a stage has several outputs",
    "RayRunner": "Beam has none, and ray-beam, the one on PyPI, has been left as it was in 2022",
}


def complete_beam_args(given: Sequence[str]) -> list[str]:
    """The Beam flags to run with: those of the local runner, unless a runner was given.

    Args:
      given: flags as the user wrote them, for example `["--runner=FlinkRunner", …]`.

    Raises:
      UserError: for something that is not a flag, an unknown runner, or a mode known to lose
        records.
    """
    flags = [_complete_runner(flag) for flag in given]
    if strange := [flag for flag in flags if not flag.startswith("--")]:
        raise UserError(
            f"Beam flags are written --name=value, got {strange[0]!r}; "
            "put them after a separate --, for example: -- --runner=FlinkRunner."
        )
    if "--direct_running_mode=multi_threading" in flags:
        raise UserError(
            "--direct_running_mode=multi_threading is refused: Beam's local runner silently "
            "loses records in it; use in_memory (tasks have their own threads) or multi_processing."
        )
    if not any(flag.startswith("--runner") for flag in flags):
        flags.insert(0, LOCAL_BEAM_ARGS[0])
    runs_locally = any(flag in ("--runner=FnApiRunner", "--runner=DirectRunner") for flag in flags)
    if runs_locally:
        named = {flag.partition("=")[0] for flag in flags}
        flags += [flag for flag in LOCAL_BEAM_ARGS[1:] if flag.partition("=")[0] not in named]
    if "--runner=DataflowRunner" in flags:
        for added, option in zip(DATAFLOW_ARGS, _DATAFLOW_OPTIONS, strict=True):
            flags += [] if any(option in flag for flag in flags) else [added]
    return [flag.replace("--runner=DirectRunner", LOCAL_BEAM_ARGS[0]) for flag in flags]


def _complete_runner(flag: str) -> str:
    """Beam also takes `--runner=flink`; everything else looks for the full name."""
    name, equals, value = flag.partition("=")
    if name != "--runner" or not equals:
        return flag
    path, _, last = value.rpartition(".")
    names = {known.lower(): known for known in (*_RUNNERS, *_REFUSED)}
    runner = names.get(last.lower()) or names.get(f"{last.lower()}runner")
    if runner in _REFUSED:
        raise UserError(
            f"--runner={runner} is refused: {_REFUSED[runner]}; use FlinkRunner or SparkRunner."
        )
    if path:  # A dotted path names a runner of the user's own.
        return flag
    if runner is None:
        hint = suggest(value, names.values())
        raise UserError(f"unknown Beam runner {value!r}; {hint}known: {', '.join(_RUNNERS)}.")
    return f"--runner={runner}"


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
