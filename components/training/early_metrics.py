"""What training has come to, for whoever waits for it: evaluation's metrics from early on."""

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from image_pipeline.components import progress
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.early_stopping import plan_averaging
from image_pipeline.components.training.epoch_clock import EpochClock
from image_pipeline.components.training.steps_per_execution import StepsCallback

_LOG = logging.getLogger(__name__)
_SHARE = 10  # A tenth of all steps tells whether it is worth waiting for the rest.


class EarlyMetrics(StepsCallback):
    """Reports evaluation's metrics after each epoch, and first after a tenth of all steps.

    It changes neither the weights nor the epoch's metrics.
    """

    def __init__(
        self,
        make_eval_data: Callable[[], Any],
        epochs: int,
        steps: int,
        start: Position,
        clock: EpochClock,
    ):
        super().__init__()
        self._make_eval_data, self._clock = make_eval_data, clock
        self._epochs, self._steps = epochs, steps
        self._reached = start.epoch * steps + start.step
        first = max(1, epochs * steps // _SHARE)
        # Looked for in the very first epoch alone: a later one has metrics of the one before.
        self._first = first if self._reached < first < steps else None

    def on_steps(self, count: int) -> None:
        """Evaluates, when a tenth is reached."""
        self._reached += count
        if self._first is None or self._reached < self._first:
            return
        self._first, started = None, time.monotonic()
        kept = [np.asarray(each) for each in self.model.metrics_variables]
        found = self.model.evaluate(
            self._make_eval_data(),
            verbose=0,
            return_dict=True,
            callbacks=plan_averaging(self.model),
        )
        for variable, value in zip(self.model.metrics_variables, kept, strict=True):
            variable.assign(value)
        self._clock.leave_out(time.monotonic() - started)
        total = self._epochs * self._steps
        self._tell(f"after {self._reached:,} of {total:,} steps", found)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Tells what Keras has evaluated."""
        prefix = "val_"
        found = {
            name.removeprefix(prefix): value
            for name, value in (logs or {}).items()
            if name.startswith(prefix)
        }
        self._tell(f"after epoch {epoch + 1} of {self._epochs}", found)

    def _tell(self, when: str, found: dict[str, float]) -> None:
        """Tells the metrics; without any, the loss."""
        shown = {name: value for name, value in found.items() if not name.endswith("loss")} or found
        text = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in shown.items())
        if text:
            progress.tell(f"{when}: {text} on eval")
            _LOG.info("%s: %s on eval", when, text)
