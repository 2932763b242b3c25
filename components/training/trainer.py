"""TFX's Trainer: from shards and a transform graph to a trained, exported model."""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
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
from components.feeding.passes import Mode
from components.training.checkpoint import Checkpoints, restore_latest
from components.training.class_weights import read_class_weights, weigh_records
from components.training.clocks import EpochClock, StepCounter
from components.training.executions import WholeEpochs, hide_length
from components.training.options import TrainingOptions
from components.training.serving import export_model
from components.training.step_profile import plan_profile
from components.view_options import ViewOptions

HISTORY_FILE = "history.json"
_NOT_OF_THE_RUN = (
    "epochs",
    "checkpoint_dir",
    "checkpoint_steps",
    "steps_per_execution",
    "profile_steps",
)


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
    options = _read_options(fn_args.custom_config or {})
    view, training, graph_dir = options.view, options.training, fn_args.transform_graph_path
    class_names = read_class_names(graph_dir)
    model = _build_model(options, class_names)
    steps = steps_per_epoch(fn_args.train_files, options.feeding, "train")
    start, checkpoints = _resume(fn_args, model, training, steps)
    clock = EpochClock(model)

    def make_train_data(**part: Any) -> tf.data.Dataset:
        data = clock.watch(_make_train_data(fn_args, options, class_names, part))
        return data if model.steps_per_execution == 1 else hide_length(data)

    progress.begin("steps", training.epochs * steps, done=start.epoch * steps + start.step)
    with contextlib.ExitStack() as traces:
        profile = plan_profile(fn_args.model_run_dir, training, start.epoch, traces)
        metrics = fit_from(
            start,
            model,
            make_train_data,
            training.epochs,
            steps,
            validation_data=_make_eval_data(fn_args, options),
            shuffle=False,  # the data are
            callbacks=[WholeEpochs(), clock, StepCounter(), *checkpoints, *profile],
            verbose=2,  # a line an epoch: logs are read after the fact
        )
    write_history(fn_args.model_run_dir, metrics, steps, clock.times())
    for trace in profile:
        trace.write_summary()
    export_model(model, graph_dir, view, class_names, fn_args.serving_model_dir)


@dataclasses.dataclass(frozen=True)
class _AllOptions:
    view: ViewOptions
    feeding: FeedingOptions
    training: TrainingOptions


def _read_options(config: Mapping[str, Any]) -> _AllOptions:
    return _AllOptions(
        ViewOptions(**config.get("view", {})),
        FeedingOptions(**config.get("feeding", {})),
        TrainingOptions(**config.get("training", {})),
    )


def _build_model(options: _AllOptions, class_names: Sequence[str]) -> keras.Model:
    view, training = options.view, options.training
    keras.utils.set_random_seed(training.seed)
    build_model = load_object(training.model)
    model = build_model((view.height_px, view.width_px, view.channels), len(class_names), training)
    if training.steps_per_execution is not None:
        model.steps_per_execution = training.steps_per_execution
    return model


def _make_train_data(
    fn_args: Any, options: _AllOptions, class_names: list[str], part: Mapping[str, Any]
) -> tf.data.Dataset:
    """The batches of a part of training, as `input_fn` counts it, with the records' weights."""
    training = options.training
    data = _read_batches(fn_args, fn_args.train_files, options, "train", seed=training.seed, **part)
    if training.class_weights == "none":
        return data
    return weigh_records(data, read_class_weights(fn_args.transform_graph_path, class_names))


def _make_eval_data(fn_args: Any, options: _AllOptions) -> tf.data.Dataset:
    steps = steps_per_epoch(fn_args.eval_files, options.feeding, "eval")
    data = _read_batches(fn_args, fn_args.eval_files, options, "eval")
    if options.feeding.bad_records == "skip":  # There may be fewer batches.
        return data
    # Keras warns of data that runs out unless it knows where they end.
    return data.apply(tf.data.experimental.assert_cardinality(steps))


def _read_batches(
    fn_args: Any, shards: Sequence[str], options: _AllOptions, mode: Mode, **part: Any
) -> tf.data.Dataset:
    return input_fn(
        shards,
        mode=mode,
        view=options.view,
        feeding=options.feeding,
        transform_graph_dir=fn_args.transform_graph_path,
        **part,
    )


def _resume(
    fn_args: Any, model: keras.Model, training: TrainingOptions, steps: int
) -> tuple[Position, list[Checkpoints]]:
    """Restores the model, and gives what stores it from there on: nothing without a folder."""
    if training.checkpoint_dir is None:
        return Position(training.seed), []
    folder = os.path.join(training.checkpoint_dir, _name_run(fn_args))
    start = restore_latest(model, folder, training.seed)
    _check_start(start, training.epochs, steps)
    return start, [Checkpoints(folder, training.checkpoint_steps, start, steps)]


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

    More epochs are no other run: it goes on where it ended. Nor are options that change no weight.
    """
    config = json.loads(json.dumps(fn_args.custom_config or {}))
    for name in _NOT_OF_THE_RUN:
        config.get("training", {}).pop(name, None)
    inputs = [fn_args.train_files, fn_args.transform_graph_path, config]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def write_history(
    folder: str,
    metrics: Mapping[str, Sequence[float]],
    steps: int,
    times: Mapping[str, Sequence[float] | None],
) -> None:
    """Writes what training reported, as JSON for people and plots.

    Args:
      folder: where `HISTORY_FILE` goes; made if needed.
      metrics: name of a loss or metric to its value after every epoch.
      steps: batches an epoch.
      times: as `EpochClock.times` gives them.
    """
    history = {
        "metrics": {name: [float(value) for value in values] for name, values in metrics.items()},
        "steps_per_epoch": steps,
        **times,
    }
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(os.path.join(folder, HISTORY_FILE), "w") as file:
        file.write(json.dumps(history, indent=2) + "\n")
