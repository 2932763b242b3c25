"""The same network on the same images, fed by Keras's own data sets and by this project.

    python -m benchmarks.beside_keras CIFAR

CIFAR has `train/<class>/<file>` and `test/<class>/<file>`, all of one size. Some images of each
class are copied into a folder of their own, so that all see the same split. Prints, for each way of
feeding, the accuracy on the test images: mean, standard deviation and each seed's.
"""

import argparse
import pathlib
import shutil
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from image_pipeline import analyze, ingest, input_fn

_BATCH = 32
Data = tuple[tf.data.Dataset, tf.data.Dataset]


def copy_images(source: pathlib.Path, folder: pathlib.Path, per_class: int) -> None:
    """Copies the first images of each class; a fifth as many for the test."""
    for split, count in (("train", per_class), ("test", per_class // 5)):
        for of_class in sorted((source / split).iterdir()):
            target = folder / split / of_class.name
            target.mkdir(parents=True)
            for path in sorted(of_class.iterdir())[:count]:
                shutil.copyfile(path, target / path.name)


def build(size: tuple[int, int, int], classes: int, scaling: float | None) -> keras.Model:
    """A small network; with a `Rescaling` layer, as Keras's guides have it."""
    first = [] if scaling is None else [keras.layers.Rescaling(scaling)]
    layers = []
    for filters in (32, 64, 128):
        layers += [keras.layers.Conv2D(filters, 3, activation="relu", padding="same")]
        layers += [keras.layers.MaxPooling2D()]
    last = [keras.layers.Flatten(), keras.layers.Dense(classes, activation="softmax")]
    model = keras.Sequential([keras.Input(size), *first, *layers, *last])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def read_by_keras(folder: pathlib.Path, size: tuple[int, int], seed: int) -> Data:
    """Keras's own data sets, of the two folders."""
    read = keras.utils.image_dataset_from_directory
    train, test = (
        read(folder / split, image_size=size, batch_size=_BATCH, seed=seed)
        for split in ("train", "test")
    )
    return train, test


def prepare(
    folder: pathlib.Path, size: tuple[int, int], preprocessing_fn: str, **options: Any
) -> Callable[[int], Data]:
    """Ingests and analyses; gives what reads both splits for a seed."""
    data, graph = (str(folder / f"{preprocessing_fn}-{name}") for name in ("data", "graph"))
    if not pathlib.Path(data).exists():
        ingest(str(folder / "images"), data)
        view = {"height_px": size[0], "width_px": size[1]}
        analyze(data, graph, view=view, preprocessing_fn=preprocessing_fn)

    def read(seed: int) -> Data:
        train = input_fn(data, "train", graph, batch_size=_BATCH, seed=seed, **options)
        return train, input_fn(data, "eval", graph, batch_size=_BATCH)

    return read


def main() -> None:
    """Trains each way with each seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--per-class", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy_images(asked.images, folder / "images", asked.per_class)
        first = next((folder / "images/train").rglob("*.*"))
        size = keras.utils.load_img(first).size[::-1]
        usual = ["pad_and_crop", "flip_horizontal"]
        ways: dict[str, tuple[Callable[[int], Data], float | None]] = {
            "Keras, Rescaling": (
                lambda seed: read_by_keras(folder / "images", size, seed),
                1 / 255,
            ),
            "keep_levels, Rescaling": (prepare(folder, size, "keep_levels"), 1 / 255),
            "standardize": (prepare(folder, size, "standardize"), None),
            f"standardize, {' and '.join(usual)}": (
                prepare(folder, size, "standardize", augment=usual),
                None,
            ),
        }
        for way, (read, scaling) in ways.items():
            found = []
            for seed in range(asked.seeds):
                keras.utils.set_random_seed(seed)
                train, test = read(seed)
                model = build((*size, 3), len(train.class_names), scaling)
                model.fit(train, epochs=asked.epochs, verbose=0)
                found.append(model.evaluate(test, verbose=0)[1])
            mean, deviation = statistics.mean(found), statistics.stdev(found)
            each = " ".join(f"{value:.3f}" for value in found)
            print(f"{way}: {mean:.3f} ± {deviation:.3f} ({each})", flush=True)


if __name__ == "__main__":
    main()
