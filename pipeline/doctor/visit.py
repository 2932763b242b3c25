"""A visit to the doctor: an examination and a trace, each shown when done."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console

from image_pipeline.components.errors import UserError
from image_pipeline.config import PipelineConfig
from image_pipeline.doctor.advice import advise
from image_pipeline.doctor.clock import Rate
from image_pipeline.doctor.examine import examine, open_training
from image_pipeline.doctor.show import (
    print_examination,
    print_memory,
    print_subject,
    word_verdict,
)
from image_pipeline.doctor.step import ModelStep, SleepingStep, Step, profile_steps
from image_pipeline.doctor.subject import open_subject
from image_pipeline.doctor.verdict import Stages, judge
from image_pipeline.show.rows import print_profile


class Visit:
    """Measures one subject, prints the results, and returns them for `to_json`."""

    def __init__(
        self,
        config: PipelineConfig,
        pattern: str,
        graph_dir: str | None,
        *,
        seconds: float,
        step_ms: float | None,
        console: Console | None,
    ):
        """Opens the records, and builds the model.

        Args:
          config: the run's options.
          pattern: matches the shards of the train split.
          graph_dir: the transform graph's folder; None measures without one.
          seconds: duration of each measurement.
          step_ms: duration of a step of the user's own model; None measures the run's model.
          console: where to print; None prints nothing.

        Raises:
          UserError: if an option does not fit the data set, or the model cannot be loaded.
        """
        self._subject = open_subject(
            [pattern], config.view, config.feeding, config.training, graph_dir
        )
        self._seconds = seconds
        self._console = console or Console(quiet=True)
        print_subject(self._subject, self._console)
        self._step: Step = ModelStep(self._subject) if step_ms is None else SleepingStep(step_ms)

    def examine(self) -> dict[str, Any]:
        """Measures, judges and advises.

        Raises:
          UserError: if a record is damaged.
        """
        subject = self._subject
        with self._reporting() as report:
            self._figures = figures = examine(subject, self._step, self._seconds, report)
        verdict = judge(figures)
        changes = advise(figures, verdict, subject.feeding)
        print_examination(figures, verdict, changes, self._console)
        print_memory(subject.memory, self._console)
        return {
            "line": word_verdict(figures, verdict, changes),
            "verdict": verdict,
            "changes": changes,
            "stages": {
                "read_cold": None if figures.cold is None else _tell_rate(figures.cold),
                "every_image": _tell_stages(figures.every_image),
                "held": _tell_stages(figures.held),
                "step": _tell_rate(figures.step),
            },
            **{name: getattr(figures, name) for name in _TOLD},
            "storage": figures.storage,
            "memory": subject.memory,
        }

    def profile(self, steps: int, folder: str) -> dict[str, Any]:
        """After the examination, traces this many steps to a folder."""
        with self._reporting() as report:
            report("the profile")
            every_image = self._figures.every_image
            batches, warm_up = open_training(self._subject, every_image, self._seconds)
            profile = profile_steps(batches, self._step, steps, warm_up, folder)
        told = dataclasses.asdict(profile)
        print_profile(told, self._console)
        return told

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[Callable[[str], None]]:
        """In a terminal, shows what is being measured."""
        with self._console.status("opening …") as status:
            yield lambda text: status.update(f"measuring: {text} …")


def check_folder(folder: str) -> None:
    """Checks that the trace can be written.

    Raises:
      UserError: if not.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--profile-dir must be a folder that can be written, got {folder!r}: "
            f"{error.strerror}; name another one."
        ) from error


_TOLD = (
    *("others_share", "batch_size", "cores", "step_ms", "together_ms", "wait_ms"),
    *("steps_a_call", "calls"),
)


def _tell_stages(stages: Stages) -> dict[str, dict[str, float]]:
    return {name: _tell_rate(rate) for name, rate in stages.items()}


def _tell_rate(rate: Rate) -> dict[str, float]:
    return {
        "images": rate.images,
        "images_per_s": rate.images_per_s,
        "ms_an_image": rate.ms_an_image,
        "cpu_s_an_image": rate.cpu_ms_an_image / 1e3,
    }
