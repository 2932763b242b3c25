"""From steps to positions: batches, their share for each worker, and where training stands."""

import dataclasses
import json
from typing import Any, Literal

import numpy as np

from image_pipeline.components.errors import UserError

POSITION_FILE = "position.json"
"""Of a checkpoint, written last: its presence means that the checkpoint is complete."""

Remainder = Literal["keep", "drop", "pad"]
# Seeds and epochs beyond this would not fit TensorFlow's int64 seeds.
_LARGEST = 2**63 - 1


def steps_per_epoch(length: int, batch_size: int, remainder: Remainder) -> int:
    """The number of batches of an epoch: of each, since resuming, schedules and Keras rely on it.

    Args:
      length: draws an epoch, at least 1.
      batch_size: records a global batch, at least 1.
      remainder: what becomes of the last records if they fill no batch: "keep" makes a smaller
        batch, "drop" leaves them out, "pad" fills the batch up from the epoch's beginning.

    Raises:
      UserError: if "drop" would leave no batch at all.
      ValueError: if an argument is out of its range.
    """
    if length < 1 or batch_size < 1:
        raise ValueError(
            f"length and batch_size must be positive, got {length} and {batch_size}; "
            "set feeding.batch_size."
        )
    if remainder not in ("keep", "drop", "pad"):
        raise ValueError(f"remainder must be 'keep', 'drop' or 'pad', got {remainder!r}.")
    if remainder == "drop" and batch_size > length:
        raise UserError(
            f"An epoch of {length} records has no whole batch of {batch_size}, and the remainder "
            "is dropped; make feeding.batch_size smaller, or keep or pad the remainder."
        )
    return length // batch_size if remainder == "drop" else -(-length // batch_size)


def batch_positions(
    step: int, batch_size: int, length: int, remainder: Remainder = "keep"
) -> np.ndarray:
    """The positions of an epoch that make up a global batch.

    Args:
      step: number of the batch in its epoch, from 0.
      batch_size: records a global batch.
      length: draws an epoch.
      remainder: see `steps_per_epoch`.

    Returns:
      int64 [batch_size], consecutive, or fewer in the last batch with "keep". With "pad", the last
      batch goes on at position 0 after the end of the epoch: its first `real_records` are the
      epoch's, and what follows has been seen and is to be masked or given no weight.

    Raises:
      UserError: if "drop" would leave no batch at all.
      ValueError: if the epoch has no such step.
    """
    steps = steps_per_epoch(length, batch_size, remainder)
    if not 0 <= step < steps:
        raise ValueError(
            f"step must be in [0, {steps}), got {step}; go on with step 0 of the next epoch."
        )
    start = step * batch_size
    end = start + batch_size if remainder == "pad" else min(start + batch_size, length)
    return np.arange(start, end, dtype=np.int64) % length


def real_records(step: int, batch_size: int, length: int) -> int:
    """How many of a batch's records, from its first, are the epoch's and not padding."""
    return min(batch_size, length - step * batch_size)


def worker_bounds(size: Any, worker: int, num_workers: int) -> tuple[Any, Any]:
    """Where a worker's part of a batch of this size starts and ends: ints, or scalar tensors.

    Laid end to end in the workers' order, the parts are the batch; their sizes differ by at most 1.
    """
    return size * worker // num_workers, size * (worker + 1) // num_workers


def share_by_owner(owners: np.ndarray, num_workers: int) -> np.ndarray:
    """Which worker takes each record of a batch, where each record has a worker that should.

    Their parts are as large as those of `worker_bounds`: of those that have too many, the last ones
    go to the workers that have too few. With b records a part, that moves 0.4 / sqrt(b) of them.

    Args:
      owners: int [batch], the worker that should take each record.
      num_workers: how many share the batch.

    Returns:
      int64 [batch], the worker that does.
    """
    sizes = np.diff(len(owners) * np.arange(num_workers + 1) // num_workers)
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=num_workers)
    rank = np.empty(len(owners), np.int64)
    rank[order] = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    stays = rank < sizes[owners]
    takers = owners.astype(np.int64)
    free = sizes - np.minimum(counts, sizes)
    takers[~stays] = np.repeat(np.arange(num_workers), free)
    return takers


@dataclasses.dataclass(frozen=True)
class Position:
    """Where training stands, in under 1 KB: to be kept beside the model's checkpoint.

    Attributes:
      seed: the run's seed, an int64.
      epoch: number of the epoch, from 0.
      step: number of the next batch in the epoch, from 0.
    """

    seed: int
    epoch: int = 0
    step: int = 0

    def __post_init__(self) -> None:
        for name, least in (("seed", -_LARGEST - 1), ("epoch", 0), ("step", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= _LARGEST:
                raise ValueError(
                    f"{name} must be a whole number from {least} to {_LARGEST}, got {value!r}."
                )

    def advance(self, steps: int, steps_per_epoch: int) -> "Position":
        """The position after so many more batches (at least 0)."""
        if steps < 0 or steps_per_epoch < 1:
            raise ValueError(
                f"steps must be at least 0 and steps_per_epoch at least 1, got {steps} and "
                f"{steps_per_epoch}; positions only move on."
            )
        epochs, step = divmod(self.step + steps, steps_per_epoch)
        return dataclasses.replace(self, epoch=self.epoch + epochs, step=step)

    def to_json(self) -> str:
        """One line of JSON, at most 100 bytes."""
        return json.dumps(dataclasses.asdict(self))
