"""TFX's Trainer: from shards and a transform graph to a trained, exported model."""

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft

from components import contract
from components.dotted import load_object
from components.errors import UserError
from components.feeding.input_fn import count_records, input_fn
from components.feeding.options import FeedingOptions
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

    train_batches = count_batches(fn_args.train_files, feeding, feeding.drop_remainder)
    eval_batches = count_batches(fn_args.eval_files, feeding)
    common: dict[str, Any] = {"view": view, "feeding": feeding, "transform_graph_dir": graph_dir}
    train_data = input_fn(
        fn_args.train_files, mode="train", seed=training.seed, epochs=training.epochs, **common
    )
    eval_data = input_fn(fn_args.eval_files, mode="eval", **common)
    clock = EpochClock()
    history = model.fit(
        # One data set of all epochs, so that it is traced once, not once an epoch.
        train_data,
        epochs=training.epochs,
        steps_per_epoch=train_batches,
        # Keras warns of data that runs out unless it knows where they end.
        validation_data=eval_data.apply(tf.data.experimental.assert_cardinality(eval_batches)),
        shuffle=False,  # the data are
        callbacks=[clock],
        verbose=2,  # a line an epoch: logs are read after the fact
    )
    write_history(fn_args.model_run_dir, history.history, train_batches, clock.seconds)
    export_model(model, graph_dir, view, class_names, fn_args.serving_model_dir)


def read_class_names(transform_graph_dir: str) -> list[str]:
    """Reads the label vocabulary, in the order of the class ids.

    Raises:
      UserError: if the transform graph has no such vocabulary.
    """
    output = tft.TFTransformOutput(transform_graph_dir)
    if output.vocabulary_file_by_name(contract.LABEL_VOCABULARY) is None:
        raise UserError(
            f"the transform graph in {transform_graph_dir} must have a vocabulary named "
            f"{contract.LABEL_VOCABULARY!r}; give the preprocessing_fn's label vocabulary "
            f"vocab_filename={contract.LABEL_VOCABULARY!r}."
        )
    return [name.decode() for name in output.vocabulary_by_name(contract.LABEL_VOCABULARY)]


def count_batches(
    files: Sequence[str], feeding: FeedingOptions, drop_remainder: bool = False
) -> int:
    """Counts the batches of one epoch.

    Raises:
      UserError: if there are none.
    """
    records = count_records(files)
    round_up = 0 if drop_remainder else feeding.batch_size - 1
    batches = (records + round_up) // feeding.batch_size
    if batches == 0:
        raise UserError(
            f"an epoch must have a batch of records, but {list(files)} hold {records} and "
            f"feeding.batch_size is {feeding.batch_size}; add images, or lower feeding.batch_size."
        )
    return batches


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
