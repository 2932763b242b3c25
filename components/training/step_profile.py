"""A trace of some steps in the middle of training, left where TensorBoard looks for it."""

import contextlib
import dataclasses
import logging

from image_pipeline.components import files
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.history import PROFILE_FILE
from image_pipeline.components.training.profile import describe_trace, record_trace
from image_pipeline.components.training.steps_per_execution import StepsCallback

_LOG = logging.getLogger(__name__)


class StepProfile(StepsCallback):
    """Traces steps in the middle of the middle epoch, once everything is compiled.

    There are never more than the epoch has, since evaluation follows. With several steps per call
    of the model, whole calls are traced, from the one with the first of these steps.
    """

    def __init__(self, folder: str, steps: int, epoch: int, traces: contextlib.ExitStack):
        """Sets what to trace.

        Args:
          folder: where the trace goes.
          steps: how many to trace.
          epoch: number of the epoch.
          traces: ends a trace that an error leaves open.
        """
        super().__init__()
        self._folder, self._steps, self._epoch, self._traces = folder, steps, epoch, traces
        self._traced = 0
        self._is_due = self._is_open = self._has_begun = False

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Notes whether this is the epoch."""
        super().on_epoch_begin(epoch, logs)
        self._is_due = epoch == self._epoch

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Starts the trace at its first step, but not with the call that compiles."""
        middle = (self.params["steps"] - self._steps) // 2
        end = batch + self.model.steps_per_execution
        if self._is_due and self._has_begun and end > middle:
            self._is_due, self._is_open = False, True
            self._traces.enter_context(record_trace(self._folder))

    def on_steps(self, count: int) -> None:
        """Ends the trace after its last step."""
        self._has_begun = True
        if self._is_open:
            self._traced += count
            if self._traced >= self._steps or self._done == self.params["steps"]:
                self._traces.close()
                self._is_open = False

    def write_summary(self) -> None:
        """Writes a summary beside the trace, unless no step was left to trace."""
        if not self._traced:
            _LOG.warning("No step was left to trace: more epochs are needed, or shorter calls.")
            return
        profile = describe_trace(self._folder, self._traced)
        content = to_sealed_json(dataclasses.asdict(profile), indent=1) + "\n"
        files.write_file(files.join(self._folder, PROFILE_FILE), content.encode())


def plan_profile(
    folder: str, training: TrainingOptions, first_epoch: int, traces: contextlib.ExitStack
) -> list[StepProfile]:
    """The callback that traces steps in the middle of the remaining epochs, if asked for.

    Raises:
      UserError: if TensorFlow cannot write the trace to the folder.
    """
    if training.profile_steps is None:
        return []
    files.check_known_to_tensorflow(folder, "with training.profile_steps, the model's run")
    middle = (first_epoch + training.epochs) // 2
    return [StepProfile(folder, training.profile_steps, middle, traces)]
