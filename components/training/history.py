"""What training reports besides the model, for summaries and reports, which need no TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.json_files import read_json
from image_pipeline.components.json_text import to_sealed_json

# In the folder of the Trainer's output `model_run`.
HISTORY_FILE = "history.json"
PROFILE_FILE = "profile.json"
VALIDATED = "val_"
"""What Keras puts before the name of a metric of the split for evaluation."""


@dataclasses.dataclass(frozen=True)
class InputWait:
    """How long training's loop waited for its next batch, evaluation left out.

    Attributes:
      share: of its time, of all epochs together.
      worst_share: of the epoch in which it waited most.
      worst_epoch: that epoch, from 1.
    """

    share: float
    worst_share: float
    worst_epoch: int


@dataclasses.dataclass(frozen=True)
class Curve:
    """A loss or metric, epoch by epoch.

    Attributes:
      name: name of the metric.
      train, eval: its values; None without any; a value is None where it was not a number.
    """

    name: str
    train: Sequence[float | None] | None
    eval: Sequence[float | None] | None

    @property
    def best_epoch(self) -> int | None:
        """The first epoch, from 1, with the least loss or error or the greatest metric of eval."""
        numbers = [value for value in self.eval or () if value is not None]
        if not self.eval or not numbers:
            return None
        is_less_better = "loss" in self.name or "error" in self.name
        return self.eval.index(min(numbers) if is_less_better else max(numbers)) + 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """Training epoch by epoch. Earlier versions did not write the fields with defaults.

    Attributes:
      metrics: name of a loss or metric to its value after every epoch; None where it was not a
        number. Of an epoch that was interrupted, those of its last part.
      steps_per_epoch: batches per epoch.
      seconds_per_epoch: duration, including validation.
      training_seconds_per_epoch: of the steps, and what is done between them.
      input_wait_seconds_per_epoch: how much of these the model waited for a batch; None where that
        could not be measured.
      unknown_records: of each split, without a class that the model knows; None if not counted.
      softmax_added: whether the model gives logits, and the exported one probabilities.
      started_from: where the first weights come from; None if they were random.
      best_epoch: with early stopping, the number of the best epoch, from 0; else None.
      random_steps: those that training took, as a configuration names them; None if not known.
      noticed: what does not go with the model, sentences.
    """

    metrics: Mapping[str, Sequence[float | None]]
    steps_per_epoch: int
    seconds_per_epoch: Sequence[float]
    training_seconds_per_epoch: Sequence[float] = ()
    input_wait_seconds_per_epoch: Sequence[float] | None = None
    unknown_records: Mapping[str, int | None] | None = None
    softmax_added: bool = False
    started_from: str | None = None
    best_epoch: int | None = None
    random_steps: Sequence[Mapping[str, Any]] | None = None
    noticed: Sequence[str] = ()

    def __post_init__(self) -> None:
        waits, loops = self.input_wait_seconds_per_epoch, self.training_seconds_per_epoch
        if waits is not None and len(waits) != len(loops):
            raise ValueError(f"the waits of {len(waits)} epochs, but the times of {len(loops)}")

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return len(self.seconds_per_epoch)

    @property
    def steps(self) -> int:
        """The number of steps in all epochs."""
        return self.steps_per_epoch * self.epochs

    @property
    def seconds(self) -> float:
        """The duration of all epochs."""
        return sum(self.seconds_per_epoch)

    @property
    def curves(self) -> list[Curve]:
        """Each loss and metric of both splits, the loss first."""
        names = sorted({name.removeprefix(VALIDATED) for name in self.metrics})
        names.sort(key=lambda name: name != "loss")
        found = self.metrics.get
        return [Curve(name, found(name), found(VALIDATED + name)) for name in names]

    @property
    def validated(self) -> dict[str, float | None]:
        """The trained model's metrics on evaluation's split, by name."""
        epoch = -1 if self.best_epoch is None else self.best_epoch
        return {
            name.removeprefix(VALIDATED): values[epoch]
            for name, values in self.metrics.items()
            if name.startswith(VALIDATED) and values
        }

    @property
    def input_wait(self) -> InputWait | None:
        """None if it was not measured."""
        waits, loops = self.input_wait_seconds_per_epoch, self.training_seconds_per_epoch
        if waits is None or not sum(loops):
            return None
        shares = [wait / loop if loop else 0.0 for wait, loop in zip(waits, loops, strict=True)]
        worst = max(shares)
        return InputWait(sum(waits) / sum(loops), worst, shares.index(worst) + 1)

    def to_text(self) -> str:
        """The content of `HISTORY_FILE`."""
        return to_sealed_json(dataclasses.asdict(self), indent=2) + "\n"


def read_history(
    model_run_dir: str, way_out: str = "run again from the Trainer on"
) -> History | None:
    """What training wrote to a folder, its output or a checkpoint; None if it is missing.

    Raises:
      UserError: if it is damaged.
    """
    path = files.join(model_run_dir, HISTORY_FILE)
    try:
        return read_json(path, History, way_out)
    except FileNotFoundError:
        return None


def write_history(model_run_dir: str, history: History) -> None:
    """Writes what training reported to a folder, which is created if needed."""
    files.write_file(files.join(model_run_dir, HISTORY_FILE), history.to_text().encode())
