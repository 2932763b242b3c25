"""Eight trials of KerasTuner in one process, over batches of `input_fn`: does the process grow?

    python -m benchmarks.tuning DATA GRAPH

DATA is a folder that `image-pipeline ingest` wrote, GRAPH one that `analyze` wrote. Prints the
memory, threads and open files of the process after each trial.
"""

import argparse
import dataclasses
import gc
import json
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import keras_tuner
import psutil

from image_pipeline.api import input_fn
from image_pipeline.components.feeding.graph import read_class_names
from image_pipeline.components.models.model import Accuracy, cross_entropy


@dataclasses.dataclass(frozen=True)
class Held:
    """What the process holds after a trial; memory in megabytes."""

    rss_mb: float
    threads: int
    open_files: int
    models: int


class Search(keras_tuner.RandomSearch):
    """A search that frees each trial's model and graphs before the next."""

    def __init__(self, told: Callable[[Held], None], **options: Any):
        """Takes KerasTuner's options, and a function that is told what the process holds."""
        super().__init__(**options)
        self._told = told

    def run_trial(self, trial: Any, *fit_args: Any, **fit_options: Any) -> Any:
        """Trains once; the base's own also stores every model, and needs TensorBoard."""
        model = self.hypermodel.build(trial.hyperparameters)
        history = model.fit(*fit_args, **fit_options).history
        found = {"val_accuracy": max(history["val_accuracy"])}
        del model
        keras.backend.clear_session(free_memory=True)
        gc.collect()
        self._told(look())
        return found


def look() -> Held:
    """What the process holds now."""
    process = psutil.Process()
    models = sum(isinstance(each, keras.Model) for each in gc.get_objects())
    size_mb = process.memory_info().rss / 2**20
    return Held(round(size_mb, 1), process.num_threads(), len(process.open_files()), models)


def search(data_dir: str, graph_dir: str, trials: int, told: Callable[[Held], None]) -> float:
    """Looks for the best learning rate and width.

    Returns:
      The best accuracy on the eval split.
    """
    train = input_fn(data_dir, "train", graph_dir, batch_size=32)
    held_out = input_fn(data_dir, "eval", graph_dir, batch_size=32)
    shape, classes = train.element_spec[0].shape[1:], len(read_class_names(graph_dir))

    def build(choices: keras_tuner.HyperParameters) -> keras.Model:
        filters = choices.Choice("filters", [4, 8, 16, 32])
        rate = choices.Float("learning_rate", 1e-4, 1e-2, sampling="log")
        layers = [
            keras.Input(shape),
            keras.layers.Conv2D(filters, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(classes, activation="softmax"),
        ]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.Adam(rate), cross_entropy, metrics=[Accuracy()])
        return model

    with tempfile.TemporaryDirectory() as folder:
        tuner = Search(
            told,
            hypermodel=build,
            objective="val_accuracy",
            max_trials=trials,
            **{"seed": 0, "directory": folder},
        )
        tuner.search(train, validation_data=held_out, epochs=2, verbose=0)
        (best,) = tuner.oracle.get_best_trials(1)
        return float(best.score)


def main() -> None:
    """Prints a line for each trial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("graph")
    parser.add_argument("--trials", type=int, default=8)
    given = parser.parse_args()
    score = search(
        given.data,
        given.graph,
        given.trials,
        lambda held: print(json.dumps(dataclasses.asdict(held)), flush=True),
    )
    print(f"best val_accuracy {score:.4f}")


if __name__ == "__main__":
    main()
