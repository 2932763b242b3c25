"""TFX's Trainer: from shards and a transform graph to a trained, exported model."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from components import progress
from components.dotted import load_object
from components.errors import UserError
from components.feeding.batches import Position
from components.feeding.graph import read_class_names
from components.feeding.input_fn import input_fn, steps_per_epoch
from components.feeding.options import FeedingOptions
from components.training.checkpoint import Checkpoints, restore_latest
from components.training.class_weights import read_class_weights, weigh_records
from components.training.options import TrainingOptions
from components.training.serving import export_model
from components.view_options import ViewOptions

HISTORY_FILE = "history.json"


def run_fn(fn_args: Any) -> None:
    """Trains the model and exports it; TFX's Trainer calls this by its dotted path.

    How long to train is `training.epochs`; TFX's `train_args` and `eval_args` are not read.

    Args:
      fn_args: TFX's FnArgs. Read are `train_files`, `eval_files`, `transform_graph_path`,
        `serving_model_dir`, `model_run_dir`, and `custom_config`, which holds the options as plain
        dicts: {"view": {...}, "feeding": {...}, "training": {...}}; what is left out is default.

    Raises:
      UserError: if a split has no batch.
    """
    config = fn_args.custom_config or {}
    view = ViewOptions(**config.get("view", {}))
    feeding = FeedingOptions(**config.get("feeding", {}))
    training = TrainingOptions(**config.get("training", {}))
    graph_dir = fn_args.transform_graph_path
    class_names = read_class_names(graph_dir)

    keras.utils.set_random_seed(training.seed)
    build_model = load_object(training.model)
    model = build_model((view.height_px, view.width_px, view.channels), len(class_names), training)

    train_batches = steps_per_epoch(fn_args.train_files, feeding, "train")
    eval_batches = steps_per_epoch(fn_args.eval_files, feeding, "eval")
    common: dict[str, Any] = {"view": view, "feeding": feeding, "transform_graph_dir": graph_dir}

    def make_train_data(**part: Any) -> tf.data.Dataset:
        data = input_fn(fn_args.train_files, mode="train", seed=training.seed, **part, **common)
        if training.class_weights == "none":
            return data
        return weigh_records(data, read_class_weights(graph_dir, class_names))

    eval_data = input_fn(fn_args.eval_files, mode="eval", **common)
    if feeding.bad_records == "stop":  # Otherwise there may be fewer batches.
        # Keras warns of data that runs out unless it knows where they end.
        eval_data = eval_data.apply(tf.data.experimental.assert_cardinality(eval_batches))
    clock = EpochClock()
    callbacks: list[keras.callbacks.Callback] = [clock, StepCounter()]
    start = Position(training.seed)
    if training.checkpoint_dir is not None:
        folder = os.path.join(training.checkpoint_dir, _name_run(fn_args))
        start = restore_latest(model, folder, training.seed)
        _check_start(start, training.epochs, train_batches)
        callbacks.append(Checkpoints(folder, training.checkpoint_steps, start, train_batches))
    begun = start.epoch * train_batches + start.step
    progress.begin("steps", training.epochs * train_batches, done=begun)
    metrics = fit_from(
        start,
        model,
        make_train_data,
        training.epochs,
        train_batches,
        validation_data=eval_data,
        shuffle=False,  # the data are
        callbacks=callbacks,
        verbose=2,  # a line an epoch: logs are read after the fact
    )
    write_history(fn_args.model_run_dir, metrics, train_batches, clock.seconds)
    export_model(model, graph_dir, view, class_names, fn_args.serving_model_dir)


def fit_from(
    start: Position,
    model: keras.Model,
    make_train_data: Callable[..., tf.data.Dataset],
    epochs: int,
    steps_per_epoch: int,
    **fit_arguments: Any,
) -> dict[str, list[float]]:
    """Trains from a position on: the rest of an epoch that was begun, then whole epochs.

    Args:
      start: the first batch.
      model: compiled.
      make_train_data: gives batches from `first_epoch`, `first_step` on, for `epochs` epochs.
      epochs: number of the epoch to stop before.
      steps_per_epoch: batches of a whole epoch.
      **fit_arguments: of Keras's `fit`.

    Returns:
      Each metric's values after every epoch that was trained.
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
            # One data set of all epochs, so that it is traced once, not once an epoch.
            make_train_data(first_epoch=first_epoch, first_step=first_step, epochs=count),
            initial_epoch=first_epoch,
            epochs=first_epoch + count,
            steps_per_epoch=steps_per_epoch - first_step,
            **fit_arguments,
        )
        for name, values in history.history.items():
            metrics.setdefault(name, []).extend(values)
    return metrics


def _check_start(start: Position, epochs: int, steps_per_epoch: int) -> None:
    """Raises UserError if training has passed its end, or its place is no longer there."""
    if (start.epoch, start.step) > (epochs, 0):
        raise UserError(
            f"training.epochs must not be less than what has been trained, but is {epochs}, and "
            f"the checkpoint stands at step {start.step} of epoch {start.epoch} (from 0); raise "
            "it, or set another training.checkpoint_dir to begin anew."
        )
    if start.step >= steps_per_epoch:
        raise UserError(
            f"the checkpoint stands at step {start.step}, but an epoch has {steps_per_epoch}: the "
            "data have changed; set another training.checkpoint_dir to begin anew."
        )


def _name_run(fn_args: Any) -> str:
    """Names checkpoints by data and options, so that other ones never go on from them.

    More epochs are no other run: it goes on where it ended.
    """
    config = json.loads(json.dumps(fn_args.custom_config or {}))
    for name in ("epochs", "checkpoint_dir", "checkpoint_steps"):
        config.get("training", {}).pop(name, None)
    inputs = [fn_args.train_files, fn_args.transform_graph_path, config]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


class EpochClock(keras.callbacks.Callback):
    """Measures the wall-clock time of every epoch, validation included."""

    def __init__(self):
        """Starts with no epochs."""
        super().__init__()
        self.seconds: list[float] = []
        self._started_s = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Starts the clock."""
        self._started_s = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Stops the clock."""
        self.seconds.append(round(time.monotonic() - self._started_s, 3))


class StepCounter(keras.callbacks.Callback):
    """Counts training's steps, for whoever shows how far it has come."""

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Keras numbers the steps of each epoch from 0."""
        self._in_epoch = 0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Counts the steps up to this one: Keras may run several of them at once."""
        progress.advance(batch + 1 - self._in_epoch)
        self._in_epoch = batch + 1


def write_history(
    folder: str, metrics: dict[str, list[float]], steps: int, seconds: list[float]
) -> None:
    """Writes what training reported, as JSON for people and plots.

    Args:
      folder: where `HISTORY_FILE` goes; made if needed.
      metrics: name of a loss or metric to its value after every epoch.
      steps: batches an epoch.
      seconds: wall-clock time of every epoch.
    """
    history = {
        "metrics": {name: [float(value) for value in values] for name, values in metrics.items()},
        "steps_per_epoch": steps,
        "seconds_per_epoch": seconds,
    }
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(os.path.join(folder, HISTORY_FILE), "w") as file:
        file.write(json.dumps(history, indent=2) + "\n")
