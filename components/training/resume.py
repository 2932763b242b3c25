"""Resumes training from its latest checkpoint, as if it had never stopped."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_analysis
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.checkpoint import (
    WAY_OUT,
    Checkpoints,
    find_latest,
    restore,
    restore_latest,
)
from image_pipeline.components.training.clocks import EpochClock
from image_pipeline.components.training.history import read_history
from image_pipeline.components.training.phases import Phases

# What a graph's folder, which may be analysed anew, says of what a model learns from.
_OF_THE_GRAPH = {
    *("manifests", "splits", "fraction", "preprocessing_fn", "function_version", "unknown_label")
}
_NOT_OF_THE_RUN = (
    "epochs",
    "checkpoint_dir",
    "checkpoint_steps",
    "steps_per_execution",
    "strategy",
    "profile_steps",
)


def resume(
    fn_args: Any,
    model: keras.Model,
    training: TrainingOptions,
    steps: int,
    clock: EpochClock,
    state: tf.Module | None = None,
) -> tuple[Position, list[Checkpoints]]:
    """Restores the model from its latest checkpoint.

    Args:
      fn_args: TFX's FnArgs.
      model: compiled.
      training: options; without a `checkpoint_dir`, nothing is stored, nor restored but for
        `resume_from`.
      steps: batches per epoch.
      clock: is given the epochs that have ended, and checkpoints keep what it knows.
      state: what checkpoints keep beside the model and its optimizer; restored as well.

    Returns:
      Where training resumes, and the callbacks that store checkpoints from there on.

    Raises:
      UserError: if the checkpoint is from another training.
    """
    folder, latest, start = None, None, Position(training.seed)
    if training.checkpoint_dir is not None:
        folder = files.join(training.checkpoint_dir, name_run(fn_args))
        latest = find_latest(folder)
        start = restore_latest(model, folder, training.seed, state)
    if training.resume_from is not None and latest is None:
        latest = training.resume_from
        start = _restore_other(model, latest, training.seed, state)
    _check_start(start, training.epochs, steps)
    if latest is not None and (ended := read_history(latest, WAY_OUT)):
        clock.go_on(ended)
    if folder is None:
        return start, []
    return start, [Checkpoints(folder, training.checkpoint_steps, start, steps, state, clock)]


def _restore_other(
    model: keras.Model, checkpoint: str, seed: int, state: tf.Module | None
) -> Position:
    """Restores the model from a checkpoint of other options; the learning rate is its own."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    rate = optimizer._learning_rate
    is_number = not isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    own_rate = float(optimizer.learning_rate) if is_number else None
    start = restore(model, checkpoint, seed, state)
    if own_rate is not None:
        optimizer.learning_rate = own_rate  # The checkpoint has that of its run.
    return start


def name_run(fn_args: Any) -> str:
    """Names checkpoints by data, graph and options, so that others never resume from them.

    More epochs do not make another run, unless the learning rate is a function of them, nor do
    options that change no weight.
    """
    config = json.loads(json.dumps(fn_args.custom_config or {}))
    training = config.get("training", {})
    # A function of the user's own may plan for `epochs`, too.
    is_planned = training.get("schedule", "constant") != "constant" or training.get("compile")
    for name in _NOT_OF_THE_RUN:
        if name != "epochs" or not is_planned:
            training.pop(name, None)
    analysis = read_analysis(fn_args.transform_graph_path)
    made_of = analysis and analysis.model_dump(mode="json", include=_OF_THE_GRAPH)
    inputs = [fn_args.train_files, fn_args.transform_graph_path, made_of, config]
    if config.get("training", {}).get("warm_start", "none") != "none":
        inputs.append(getattr(fn_args, "base_model", None))
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
    phases: Phases,
    is_over: Callable[[], bool] = lambda: False,
    **fit_arguments: Any,
) -> None:
    """Trains from a position on: the rest of an unfinished epoch, then whole epochs.

    Args:
      start: the first batch.
      model: compiled.
      make_train_data: makes batches from `first_epoch`, `first_step` on, for `epochs` epochs.
      epochs: number of the epoch to stop before.
      steps_per_epoch: batches of a whole epoch.
      phases: what is done when an epoch begins another phase of training.
      is_over: whether training has been ended early.
      **fit_arguments: arguments of Keras's `fit`.
    """
    for first_epoch, first_step, count in _split(start, epochs, phases.boundary):
        if is_over():
            break
        phases.enter(first_epoch, first_step)
        model.fit(
            # One data set for all epochs, so that it is traced once, not once per epoch.
            make_train_data(first_epoch=first_epoch, first_step=first_step, epochs=count),
            initial_epoch=first_epoch,
            epochs=first_epoch + count,
            steps_per_epoch=steps_per_epoch - first_step,
            **fit_arguments,
        )


def _split(start: Position, epochs: int, boundary: int | None) -> Iterator[tuple[int, int, int]]:
    """The parts that are trained each in one go: first epoch, first step of it, and epochs."""
    first = start.epoch
    if start.step and first < epochs:
        yield first, start.step, 1
        first += 1
    ends = [epochs] if boundary is None or boundary >= epochs else [boundary, epochs]
    for end in ends:
        if first < end:
            yield first, 0, end - first
            first = end
