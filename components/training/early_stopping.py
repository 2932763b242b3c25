"""Which weights are evaluated and exported: the optimizer's average of them, and the best epoch's.

Where the optimizer keeps an average (`use_ema`), Keras writes it into the model when `fit` ends, as
if that were the end of training; a training that is resumed, or has two phases, calls `fit` twice.
And it takes the averages for those of the weights that learn just then, which in the phases of
fine-tuning are not all. Here the model has its own weights whenever a step is made or a checkpoint
is stored.
"""

import contextlib
import logging
import math
from collections.abc import Collection, Iterator

import keras
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest
from image_pipeline.components.models.compiling import find_inner
from image_pipeline.components.models.options import TrainingOptions

_LOG = logging.getLogger(__name__)


def take_average(model: keras.Model) -> None:
    """Writes the average into the model, if there is one: before the first step there is none."""
    optimizer = find_inner(model.optimizer)
    if not keras.ops.convert_to_numpy(optimizer.iterations):
        return  # Mixed precision may have left out all steps; Keras's averages begin at 0.
    # The method of its class: `plan_averaging` hides it from Keras.
    type(optimizer).finalize_variable_values(optimizer, optimizer._trainable_variables)


@contextlib.contextmanager
def averaged(model: keras.Model) -> Iterator[None]:
    """Inside, the model has the average of its weights, if there is one; then its own again."""
    variables = find_inner(model.optimizer)._trainable_variables
    own = [variable.numpy() for variable in variables]
    take_average(model)
    try:
        yield
    finally:
        for variable, value in zip(variables, own, strict=True):
            variable.assign(value)


class EvaluateAverage(keras.callbacks.Callback):
    """Has validation see the average."""

    def __init__(self) -> None:
        super().__init__()
        self._inside = contextlib.ExitStack()

    def on_test_begin(self, logs: dict | None = None) -> None:
        """Puts the average into the model."""
        self._inside.enter_context(averaged(self.model))

    def on_test_end(self, logs: dict | None = None) -> None:
        """Puts the model's own weights back."""
        self._inside.close()


def plan_averaging(model: keras.Model) -> list[EvaluateAverage]:
    """The callback, if the model's optimizer keeps an average; `fit` then no longer writes it."""
    if not find_inner(model.optimizer).use_ema:
        return []
    model.optimizer.finalize_variable_values = lambda var_list: None
    return [EvaluateAverage()]


class EarlyStopping(keras.callbacks.Callback):
    """Ends training when it no longer becomes better, and goes back to its best weights.

    Other than Keras's callback of this name, it survives being killed: what it knows is part of
    every checkpoint. `early_stopping_patience` and the options beside it say when.
    """

    def __init__(self, model: keras.Model, options: TrainingOptions):
        """Takes a model whose weights exist; without `early_stopping_patience` nothing is done."""
        super().__init__()
        self._options = options
        self.set_model(model)
        self._weights = model.weights
        tuning = options.fine_tuning
        head_epochs = 0 if tuning is None else tuning.head_epochs
        self._counted_from = head_epochs if head_epochs < options.epochs else 0
        self.state: tf.Module | None = None
        self._kept: list[tf.Variable] = []
        if options.early_stopping_patience is None:
            return
        with tf.device("CPU:0"):
            # A module, so that a checkpoint holds it.
            self.state = tf.Module()
            self.state.best = tf.Variable(math.nan, dtype=tf.float64, trainable=False)
            self.state.best_epoch = tf.Variable(-1, dtype=tf.int64, trainable=False)
            self.state.waited = tf.Variable(0, dtype=tf.int64, trainable=False)
            kept = model.weights if options.restore_best_weights else []
            self._kept = [tf.Variable(weight.numpy(), trainable=False) for weight in kept]
            self.state.weights = self._kept

    @property
    def is_over(self) -> bool:
        """Whether training has ended."""
        if self.state is None or self._options.early_stopping_patience is None:
            return False
        return int(self.state.waited) >= self._options.early_stopping_patience

    @property
    def best_epoch(self) -> int | None:
        """Number of the best epoch, from 0; None if there is none."""
        if self.state is None or int(self.state.best_epoch) < 0:
            return None
        return int(self.state.best_epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Compares the epoch with the best one; a value that is not a number is never better."""
        if self.state is None:
            return
        name, logs = self._options.early_stopping_monitor, logs or {}
        check_monitor(name, logs)
        value, best = float(logs[name]), float(self.state.best)
        is_better = value < best if is_error(name) else value > best
        if math.isfinite(value) and (math.isnan(best) or is_better):
            self.state.best.assign(value)
            self.state.best_epoch.assign(epoch)
            self.state.waited.assign(0)
            with averaged(self.model):  # as it was evaluated
                for kept, weight in zip(self._kept, self._weights, strict=False):
                    kept.assign(weight)
            return
        if epoch >= self._counted_from:
            self.state.waited.assign_add(1)
        if self.is_over:
            self.model.stop_training = True
            _LOG.info(
                "Training ends after epoch %d: %s has not become better than epoch %d's %.6g for "
                "%d epochs.",
                *(epoch + 1, name, int(self.state.best_epoch) + 1, best, int(self.state.waited)),
            )

    def finish(self) -> None:
        """Gives the model the weights to export: the average, if there is one, or the best."""
        take_average(self.model)
        if self.best_epoch is not None:
            for kept, weight in zip(self._kept, self._weights, strict=False):
                weight.assign(kept)


def check_monitor(name: str, known: Collection[str]) -> None:
    """Raises UserError if training does not report this metric."""
    if name not in known:
        raise UserError(
            f"training.early_stopping_monitor={name} is not a metric of this training; "
            f"{suggest(name, known)}there are {', '.join(sorted(known))}."
        )


def is_error(name: str) -> bool:
    """Whether a lower value of this metric is better."""
    return any(word in name for word in ("loss", "error", "entropy", "divergence"))
