"""Stops training at the first loss that is NaN or infinite."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.steps_per_execution import StepsCallback
from image_pipeline.components.views.options import ViewOptions

_MOST_NAMED = 8
_LOG = logging.getLogger(__name__)


class StopAtNonFinite(StepsCallback):
    """Ends training with an error at the first step whose loss is not finite.

    After an epoch it looks at the weights as well: what the last step made of them would show in
    the loss of the next one only.

    A network does not recover from that, and its argmax would still be a class: the first one.
    """

    def __init__(
        self,
        start: Position,
        steps_per_epoch: int,
        name_records: Callable[[Position, int], Sequence[str]],
        find_checkpoint: Callable[[], str | None] = lambda: None,
    ):
        """Takes what the message needs.

        Args:
          start: where training starts.
          steps_per_epoch: batches of a whole epoch.
          name_records: names the records of some batches, from a position on.
          find_checkpoint: the folder of the last checkpoint, if there is one.
        """
        super().__init__()
        self._position = start
        self._steps_per_epoch = steps_per_epoch
        self._name_records = name_records
        self._find_checkpoint = find_checkpoint
        self._previous: tuple[Position, int] | None = None
        self._losses: dict[str, float] = {}

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Notes the losses: Keras's are means since the epoch began, so they stay non-finite."""
        logs = logs or {}
        # A user's own training step may call it something else.
        names = ["loss"] if "loss" in logs else [name for name in logs if "loss" in name]
        self._losses = {name: float(logs[name]) for name in names}
        super().on_train_batch_end(batch, logs)

    def on_steps(self, count: int) -> None:
        """Moves on, or raises UserError."""
        bad = {name: value for name, value in self._losses.items() if not math.isfinite(value)}
        if bad:
            name, value = next(iter(bad.items()))
            raise UserError(self._describe(f"the {name} became {value}", self._position, count))
        self._previous = self._position, count
        self._position = self._position.advance(count, self._steps_per_epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Looks at the weights, or raises UserError; tells of a validation that is not finite."""
        if self._previous is not None and not are_finite(self.model.weights):
            raise UserError(self._describe("weights became NaN or infinite", *self._previous))
        for name, value in (logs or {}).items():
            if name.startswith("val_") and "loss" in name and not math.isfinite(value):
                _LOG.warning(
                    "The %s of epoch %d (counted from 0) is %s, though all weights are finite: "
                    "training goes on, since validation changes none.",
                    *(name, epoch, value),
                )

    def _describe(self, what: str, position: Position, count: int) -> str:
        last = position.step + count - 1
        steps = f"step {last}" if count == 1 else f"one of the steps {position.step} to {last}"
        try:
            names = self._name_records(position, count)
        except UserError as error:  # For example, the batch did not fit into memory a second time.
            records = f"Its records are unknown: {error}"
        else:
            _LOG.error("Records of the batch whose loss was not finite: %s", ", ".join(names))
            more = len(names) - _MOST_NAMED
            rest = f" and {more:,} more, listed in the log" if more > 0 else ""
            records = f"Its records: {', '.join(names[:_MOST_NAMED])}{rest}."
        checkpoint = "There is no checkpoint: training will start over."
        if (folder := self._find_checkpoint()) is not None:
            checkpoint = (
                "With other options training starts over, unless you set "
                f"training.resume_from={folder}, its last checkpoint."
            )
        return (
            f"training stopped: {what} at {steps} of epoch {position.epoch} "
            f"(counted from 0). {records} Lower training.learning_rate, clip gradients (an "
            "optimizer's clipnorm), or look at these images; or a loss or metric of your own takes "
            f"the logarithm of 0 or divides by it. {checkpoint}"
        )


def name_records(
    files: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    seed: int,
    position: Position,
    count: int,
) -> list[str]:
    """Names the records of some of training's batches by their files, or by their ids.

    Raises:
      UserError: if they cannot be read again.
    """
    passes = Passes(mode="train", seed=seed, first_epoch=position.epoch, first_step=position.step)
    own = feeding.model_copy(update={"hold_decoded": False})
    columns = parse.columns_of((record.FILENAME, record.SOURCE_ID))
    batches = ImageBatches(files, view, own, passes, columns).read().take(count)
    pairs = (
        zip(batch[record.FILENAME].tolist(), batch[record.SOURCE_ID].tolist(), strict=True)
        for batch in batches.as_numpy_iterator()
    )
    return [(name or id_).decode(errors="replace") for batch in pairs for name, id_ in batch]


def are_finite(variables: Iterable[Any]) -> bool:
    """Whether all values of these variables are finite; integers always are."""
    values = (tf.convert_to_tensor(variable) for variable in variables)
    return all(
        bool(tf.reduce_all(tf.math.is_finite(value))) for value in values if value.dtype.is_floating
    )


def check_probabilities(probabilities: np.ndarray, of: str) -> np.ndarray:
    """Checks that probabilities are finite, and returns them.

    Args:
      probabilities: float [..., classes].
      of: what they belong to, for the message.

    Raises:
      UserError: if one of them is not finite.
    """
    if not np.isfinite(probabilities).all():
        wrong = probabilities[~np.isfinite(probabilities)].flat[0]
        raise UserError(
            f"the model must give finite probabilities, but gives {wrong} for {of}: it would be "
            "taken for the first class. Its weights have overflowed, or one of its layers "
            "divides by 0; lower training.learning_rate and train again."
        )
    return probabilities
