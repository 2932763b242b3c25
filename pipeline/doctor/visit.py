"""A whole visit to the doctor: examination, sweeps and profile, shown as they are done."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console

from image_pipeline.config import PipelineConfig
from image_pipeline.doctor.examine import Examination, examine, open_training
from image_pipeline.doctor.show import print_examination, print_memory, print_subject
from image_pipeline.doctor.show_more import print_sweep, summarize
from image_pipeline.doctor.step import ModelStep, SleepingStep, Step
from image_pipeline.doctor.subject import Subject, open_subject
from image_pipeline.doctor.sweep import sweep_settings
from image_pipeline.doctor.trace import check_folder, profile_steps
from image_pipeline.show.profile import print_profile


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the person asks for.

    Attributes:
      seconds: of each measurement.
      step_ms: of a step of their own model; None measures the run's model.
      sweep: whether other settings are tried.
      profile_steps: how many steps to trace; None for no trace.
      profile_dir: where the trace goes.
    """

    seconds: float
    step_ms: float | None = None
    sweep: bool = False
    profile_steps: int | None = None
    profile_dir: str = "profile"


def visit(
    config: PipelineConfig,
    pattern: str,
    graph_dir: str | None,
    wishes: Wishes,
    console: Console | None,
) -> dict[str, Any]:
    """Does all that is wished for.

    Args:
      config: the run's options.
      pattern: matches the shards of the train split.
      graph_dir: the transform graph's folder; None measures without one.
      wishes: what to do.
      console: where to show it; None for nowhere.

    Returns:
      All figures, for machines.

    Raises:
      UserError: if an option does not fit the data set, or a record is damaged.
    """
    if wishes.profile_steps is not None:
        check_folder(wishes.profile_dir)
    subject = open_subject([pattern], config.view, config.feeding, config.training, graph_dir)
    out = console or Console(quiet=True)
    print_subject(subject, out)
    step = ModelStep(subject) if wishes.step_ms is None else SleepingStep(wishes.step_ms)
    with _reporting(out) as report:
        found = examine(subject, step, wishes.seconds, report)
    print_examination(found, out)
    print_memory(subject.memory, out)
    summary = summarize(found, subject.memory)
    if wishes.sweep:
        summary["sweeps"] = _sweep(subject, step, found, wishes, out)
    if wishes.profile_steps is not None:
        summary["profile"] = _profile(subject, step, found, wishes, out)
    return summary


def _sweep(
    subject: Subject, step: Step, found: Examination, wishes: Wishes, console: Console
) -> list[dict[str, Any]]:
    sweeps = []
    with _reporting(console) as report:
        for sweep in sweep_settings(subject, step, found, wishes.seconds, report):
            print_sweep(sweep, console)
            sweeps.append(dataclasses.asdict(sweep))
    return sweeps


def _profile(
    subject: Subject, step: Step, found: Examination, wishes: Wishes, console: Console
) -> dict[str, Any]:
    assert wishes.profile_steps is not None  # It is asked for.
    with _reporting(console) as report:
        report("the profile")
        batches, warm_up = open_training(subject, found.input, wishes.seconds)
        profile = profile_steps(batches, step, wishes.profile_steps, warm_up, wishes.profile_dir)
    told = dataclasses.asdict(profile)
    print_profile(told, console)
    return told


@contextlib.contextmanager
def _reporting(console: Console) -> Iterator[Callable[[str], None]]:
    """In a terminal, shows what is being measured."""
    with console.status("opening …") as status:
        yield lambda text: status.update(f"measuring: {text} …")
