"""Resumes training from its latest checkpoint, as if it had never stopped."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.checkpoint import (
    Checkpoints,
    find_latest,
    restore,
    restore_latest,
)

_NOT_OF_THE_RUN = (
    "epochs",
    "checkpoint_dir",
    "checkpoint_steps",
    "steps_per_execution",
    "strategy",
    "profile_steps",
)


def resume(
    fn_args: Any, model: keras.Model, training: TrainingOptions, steps: int
) -> tuple[Position, list[Checkpoints]]:
    """Restores the model from its latest checkpoint.

    Args:
      fn_args: TFX's FnArgs.
      model: compiled.
      training: options; without a `checkpoint_dir`, nothing is stored, nor restored but for
        `start_from`.
      steps: batches per epoch.

    Returns:
      Where training resumes, and the callbacks that store checkpoints from there on.

    Raises:
      UserError: if the checkpoint is from another training.
    """
    folder, start = None, Position(training.seed)
    if training.checkpoint_dir is not None:
        folder = files.join(training.checkpoint_dir, name_run(fn_args))
        start = restore_latest(model, folder, training.seed)
    if training.start_from is not None and (folder is None or find_latest(folder) is None):
        start = _restore_other(model, training.start_from, training.seed)
    _check_start(start, training.epochs, steps)
    if folder is None:
        return start, []
    return start, [Checkpoints(folder, training.checkpoint_steps, start, steps)]


def _restore_other(model: keras.Model, checkpoint: str, seed: int) -> Position:
    """Restores the model from a checkpoint of other options; the learning rate is its own."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    optimizer.build(model.trainable_variables)
    rate = optimizer._learning_rate
    is_number = not isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    own_rate = float(optimizer.learning_rate) if is_number else None
    start = restore(model, checkpoint, seed)
    if own_rate is not None:
        optimizer.learning_rate = own_rate  # The checkpoint has that of its run.
    return start


def name_run(fn_args: Any) -> str:
    """Names checkpoints by data and options, so that others never resume from them.

    More epochs do not make another run, nor do options that change no weight.
    """
    config = json.loads(json.dumps(fn_args.custom_config or {}))
    for name in _NOT_OF_THE_RUN:
        config.get("training", {}).pop(name, None)
    inputs = [fn_args.train_files, fn_args.transform_graph_path, config]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def _check_start(start: Position, epochs: int, steps_per_epoch: int) -> None:
    """Raises UserError if the checkpoint is past the end, or its position no longer exists."""
    if (start.epoch, start.step) > (epochs, 0):
        raise UserError(
            f"training.epochs must not be less than what has been trained, but is {epochs}, and "
            f"the checkpoint is at step {start.step} of epoch {start.epoch} (from 0); raise "
            "it, or set another training.checkpoint_dir to start over."
        )
    if start.step >= steps_per_epoch:
        raise UserError(
            f"the checkpoint is at step {start.step}, but an epoch has {steps_per_epoch}: the "
            "data has changed; set another training.checkpoint_dir to start over."
        )


def fit_from(
    start: Position,
    model: keras.Model,
    make_train_data: Callable[..., tf.data.Dataset],
    epochs: int,
    steps_per_epoch: int,
    **fit_arguments: Any,
) -> dict[str, list[float]]:
    """Trains from a position on: the rest of an unfinished epoch, then whole epochs.

    Args:
      start: the first batch.
      model: compiled.
      make_train_data: makes batches from `first_epoch`, `first_step` on, for `epochs` epochs.
      epochs: number of the epoch to stop before.
      steps_per_epoch: batches of a whole epoch.
      **fit_arguments: arguments of Keras's `fit`.

    Returns:
      Each metric's values after every epoch trained.
    """
    begun = 1 if start.step else 0
    parts = [
        (start.epoch, start.step, begun),
        (start.epoch + begun, 0, epochs - start.epoch - begun),
    ]
    metrics: dict[str, list[float]] = {}
    for first_epoch, first_step, count in parts:
        if count <= 0:
            continue
        history = model.fit(
            # One data set for all epochs, so that it is traced once, not once per epoch.
            make_train_data(first_epoch=first_epoch, first_step=first_step, epochs=count),
            initial_epoch=first_epoch,
            epochs=first_epoch + count,
            steps_per_epoch=steps_per_epoch - first_step,
            **fit_arguments,
        )
        for name, values in history.history.items():
            metrics.setdefault(name, []).extend(values)
    return metrics
