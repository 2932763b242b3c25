"""Where training goes on: whether there is a checkpoint of this very training, and from where."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_analysis
from image_pipeline.components.feeding.certificate import Certificate, read_certificate
from image_pipeline.components.models.compiling import find_inner
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.tasks.signatures import EXTRA_FOLDER
from image_pipeline.components.training.checkpoint import (
    WAY_OUT,
    Checkpoints,
    find_latest,
    restore,
    restore_latest,
)
from image_pipeline.components.training.epoch_clock import EpochClock
from image_pipeline.components.training.history import read_history
from image_pipeline.components.training.recipe import is_ours, name_start

# What a graph's folder, which may be analysed again, says of what a model learns from.
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
    fed: Certificate | None = None,
) -> tuple[Position, list[Checkpoints], Certificate | None]:
    """Restores the model from its latest checkpoint.

    Args:
      fn_args: TFX's FnArgs.
      model: compiled.
      training: options; without a `checkpoint_dir`, nothing is stored, nor restored but for
        `resume_from`.
      steps: batches per epoch.
      clock: is given the epochs that have ended, and checkpoints keep what it knows.
      state: what checkpoints keep beside the model and its optimizer; restored as well.
      fed: the certificate of this training alone, from its first batch on.

    Returns:
      Where training resumes, the callbacks that store checkpoints from there on, and the
      certificate with what the model was fed before.

    Raises:
      UserError: if the checkpoint is from another training, is past its end, or at a position that
        no longer exists.
    """
    folder, latest, start = None, None, Position(training.seed)
    if training.checkpoint_dir is not None:
        folder = files.join(training.checkpoint_dir, name_run(fn_args))
        latest = find_latest(folder)
        start = restore_latest(model, folder, training.seed, state)
    if training.resume_from is not None and latest is None:
        # A checkpoint of other options, which holds the learning rate of its run; ours is to stay.
        latest = training.resume_from
        optimizer = find_inner(model.optimizer)
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        schedule = keras.optimizers.schedules.LearningRateSchedule
        is_number = not isinstance(optimizer._learning_rate, schedule)
        own_rate = float(optimizer.learning_rate) if is_number else None
        start = restore(model, latest, training.seed, state)
        if own_rate is not None:
            optimizer.learning_rate = own_rate
    if (start.epoch, start.step) > (training.epochs, 0):
        raise UserError(
            f"training.epochs must not be less than what has been trained, but is "
            f"{training.epochs}, and the checkpoint is at step {start.step} of epoch {start.epoch} "
            "(from 0); raise it, or set another training.checkpoint_dir to start over."
        )
    if start.step >= steps:
        raise UserError(
            f"the checkpoint is at step {start.step}, but an epoch has {steps}: the data has "
            "changed; set another training.checkpoint_dir to start over."
        )
    if latest is not None and (ended := read_history(latest, WAY_OUT)):
        clock.go_on(ended)
    if fed is not None:
        fed = _follow(fed, start, training, latest)
    if folder is None:
        return start, [], fed
    every = training.checkpoint_steps
    return start, [Checkpoints(folder, every, start, steps, state, clock, fed)], fed


def _follow(
    fed: Certificate, start: Position, training: TrainingOptions, latest: str | None
) -> Certificate:
    """The certificate of a training behind that of what it goes on from.

    Args:
      fed: of the training alone.
      start: where it begins.
      training: names the first weights, or the checkpoint of another training.
      latest: the checkpoint that it goes on from, if it does.
    """
    begun = fed.begin(start.epoch, start.step)
    if latest is not None:
        before = read_certificate(latest)
        if before is not None:
            return before.go_on(begun)
        # Of a version that wrote none: what this training was fed from its beginning is known all
        # the same, unless that was another one's checkpoint.
        if training.resume_from is not None:
            return dataclasses.replace(begun, started_from=latest)
    if training.weights is None:
        return fed
    if is_ours(training.weights):
        before = read_certificate(files.join(training.weights, EXTRA_FOLDER))
        if before is not None:
            return before.go_on(fed)
    return dataclasses.replace(fed, started_from=name_start(training))


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


def split_epochs(
    start: Position, epochs: int, boundary: int | None
) -> Iterator[tuple[int, int, int]]:
    """The parts that are trained each in one go: the rest of an unfinished epoch, then whole ones.

    Args:
      start: the first batch.
      epochs: number of the epoch to stop before.
      boundary: the first epoch of another phase, see `Phases`.

    Yields:
      The first epoch of each part, the first step of it, and the number of epochs.
    """
    first = start.epoch
    if start.step and first < epochs:
        yield first, start.step, 1
        first += 1
    ends = [epochs] if boundary is None or boundary >= epochs else [boundary, epochs]
    for end in ends:
        if first < end:
            yield first, 0, end - first
            first = end
