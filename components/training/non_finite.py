"""Training that has lost its numbers: it stops at the first loss that is NaN or infinite."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.shard_files import match_files
from image_pipeline.components.feeding.stages import Stages
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.steps_per_execution import StepsCallback
from image_pipeline.components.views.options import ViewOptions

_MOST_NAMED = 8
_LOG = logging.getLogger(__name__)


class StopAtNonFinite(StepsCallback):
    """Ends training with an error at the first step whose loss is not finite.

    A network does not recover from it, and its argmax would still be some class: the first one,
    which is the most frequent.
    """

    def __init__(
        self,
        start: Position,
        steps_per_epoch: int,
        name_records: Callable[[Position, int], Sequence[str]],
    ):
        """Takes what the message needs.

        Args:
          start: where training starts.
          steps_per_epoch: batches of a whole epoch.
          name_records: names the records of so many batches from a position on.
        """
        super().__init__()
        self._position = start
        self._steps_per_epoch = steps_per_epoch
        self._name_records = name_records
        self._losses: dict[str, float] = {}

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Notes the losses: Keras's are means since the epoch began, so they stay non-finite."""
        logs = logs or {}
        # A training step of a person's own may call it otherwise.
        names = ["loss"] if "loss" in logs else [name for name in logs if "loss" in name]
        self._losses = {name: float(logs[name]) for name in names}
        super().on_train_batch_end(batch, logs)

    def on_steps(self, count: int) -> None:
        """Moves on, or raises UserError."""
        bad = {name: value for name, value in self._losses.items() if not math.isfinite(value)}
        if bad:
            raise UserError(self._describe(*next(iter(bad.items())), count))
        self._position = self._position.advance(count, self._steps_per_epoch)

    def _describe(self, name: str, value: float, count: int) -> str:
        position = self._position
        last = position.step + count - 1
        steps = f"step {last}" if count == 1 else f"one of the steps {position.step} to {last}"
        return (
            f"training stopped: the {name} became {value} at {steps} of epoch {position.epoch} "
            f"(counted from 0). {self._tell_records(count)} Lower training.learning_rate, clip "
            "gradients (an optimizer's clipnorm), look at these images; or a loss or metric of "
            "your own takes the logarithm of 0 or divides by it. Checkpoints from before it stay."
        )

    def _tell_records(self, count: int) -> str:
        try:
            names = self._name_records(self._position, count)
        except UserError as error:  # The batch did not fit into memory a second time, for example.
            return f"Its records cannot be told: {error}"
        _LOG.error("Records of the batch whose loss was not finite: %s", ", ".join(names))
        more = len(names) - _MOST_NAMED
        rest = f" and {more:,} more, which the log names" if more > 0 else ""
        return f"Its records: {', '.join(names[:_MOST_NAMED])}{rest}."


def name_records(
    files: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    seed: int,
    position: Position,
    count: int,
) -> list[str]:
    """Names the records of some batches of training: batches are a function of their position.

    Args:
      files: of the train split.
      view: the model's input size.
      feeding: the options with which it is trained.
      seed: of training.
      position: of the first batch.
      count: how many batches.

    Returns:
      Each record's file name, or its id where it has none.

    Raises:
      UserError: if they cannot be read again.
    """
    if feeding.data_service is not None:
        raise UserError("feeding.data_service gives them in the order of arrival.")
    passes = Passes(mode="train", seed=seed, first_epoch=position.epoch, first_step=position.step)
    own = feeding.model_copy(update={"hold_decoded": False})
    columns = (record.FILENAME, record.SOURCE_ID)
    stages = Stages(match_files(files), view, own, passes, columns)
    batches = stages.read().take(count)
    pairs = (
        zip(batch[record.FILENAME].tolist(), batch[record.SOURCE_ID].tolist(), strict=True)
        for batch in batches.as_numpy_iterator()
    )
    return [(name or id_).decode(errors="replace") for batch in pairs for name, id_ in batch]


def are_finite(variables: Iterable[Any]) -> bool:
    """Whether all numbers of these variables are finite; those that are not floats are."""
    values = (tf.convert_to_tensor(variable) for variable in variables)
    return all(
        bool(tf.reduce_all(tf.math.is_finite(value))) for value in values if value.dtype.is_floating
    )


def check_probabilities(probabilities: np.ndarray, of: str) -> np.ndarray:
    """Passes probabilities on.

    Args:
      probabilities: float [..., classes].
      of: what they are of, for the message.

    Raises:
      UserError: if one of them is not finite.
    """
    if not np.isfinite(probabilities).all():
        wrong = probabilities[~np.isfinite(probabilities)].flat[0]
        raise UserError(
            f"the model must give finite probabilities, but gives {wrong} for {of}: it would be "
            "taken for the most frequent class. Its weights have overflowed, or a layer of its own "
            "divides by 0; lower training.learning_rate and train again."
        )
    return probabilities
