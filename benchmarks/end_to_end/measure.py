"""Measures one way of feeding in a process of its own; prints a line of JSON."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.end_to_end.feeds import FEEDS, MEAN, SIZE_PX, STD, Feed, Job

Step = Callable[[tf.Tensor, tf.Tensor], object]


def make_model(classes: int, seed: int) -> tf.keras.Model:
    """A small convolutional network, the same weights for the same seed."""
    tf.keras.utils.set_random_seed(seed)
    layers = tf.keras.layers
    blocks: list[Any] = [tf.keras.Input((SIZE_PX, SIZE_PX, 3))]
    for filters in (16, 32, 64):
        blocks += [layers.Conv2D(filters, 3, padding="same", use_bias=False)]
        blocks += [layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D()]
    return tf.keras.Sequential([*blocks, layers.GlobalAveragePooling2D(), layers.Dense(classes)])


def make_step(model: tf.keras.Model) -> Step:
    """A training step, compiled to a graph."""
    optimizer = tf.keras.optimizers.Adam(3e-3)
    optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda images, labels: step(images, labels).numpy()


def time_epoch(feed: Feed, step: Step) -> tuple[dict[str, float], collections.Counter]:
    """One epoch: its seconds, those of them spent waiting for a batch, CPU seconds; its labels."""
    labels_seen: collections.Counter = collections.Counter()
    cpu, started, wait_s = _cpu_seconds(), time.perf_counter(), 0.0
    batches = None
    while True:
        asked = time.perf_counter()
        batches = feed.read() if batches is None else batches
        batch = next(batches, None)
        wait_s += time.perf_counter() - asked
        if batch is None:
            break
        step(*batch)
        labels_seen.update(batch[1].numpy().tolist())
    total_s = time.perf_counter() - started
    return {
        "total_s": total_s,
        "wait_s": wait_s,
        "cpu_s": _cpu_seconds() - cpu,
    }, labels_seen


def check_epoch(feed: Feed, job: Job) -> int:
    """Reads an epoch, which must have every file once with its class; returns its batches.

    Means and standard deviations of the normalised images must be those of the plain ones, but for
    what is cut out and turned in.
    """
    seen: collections.Counter = collections.Counter()
    sums, squares, count, steps = np.zeros(3), np.zeros(3), 0, 0
    for paths, labels, images in feed.check():
        names = [feed.classes[label] for label in labels.tolist()]
        seen.update(zip(paths.tolist(), names, strict=True))
        sums += images.sum((0, 1, 2), dtype=np.float64)
        squares += np.square(images, dtype=np.float64).sum((0, 1, 2))
        count, steps = count + images[..., 0].size, steps + 1
    files = job.list_files("train")
    below = [(os.fsencode(os.path.relpath(path, job.images)), n) for path, n in files]
    expected = {(path, job.classes[number]): 1 for path, number in below}
    assert seen == expected, f"{len(seen)} of {len(expected)} files, or some more than once"
    mean, std = sums / count, np.sqrt(squares / count - np.square(sums / count))
    if not job.limit:  # Of few images, this project's own mean is not that of all.
        assert np.abs(mean).max() < 0.2 and np.abs(std - 1).max() < 0.2, (mean, std)
    return steps


def measure_accuracy(model: tf.keras.Model, feed: Feed, job: Job) -> float:
    """The share of test images whose class is found."""
    pixels, labels = job.load("test")
    normalised = (pixels.astype(np.float32) - MEAN) / STD
    ids = np.array([feed.classes.index(name) for name in job.classes])[labels]
    return float((model.predict(normalised, verbose=0).argmax(-1) == ids).mean())


def measure(name: str, job: Job, epochs: int, step_ms: float) -> dict[str, Any]:
    """All figures of one way."""
    feed = FEEDS[name](job)
    files = job.list_files("train")
    assert len(files) % job.batch_size == 0, f"{len(files)} images are no whole number of batches"
    expected = collections.Counter(feed.classes.index(job.classes[number]) for _, number in files)
    steps = check_epoch(feed, job)
    model = make_model(len(job.classes), job.seed)
    step = make_step(model)
    before = model.get_weights()
    step(tf.zeros([job.batch_size, SIZE_PX, SIZE_PX, 3]), tf.zeros([job.batch_size], tf.int64))
    model.set_weights(before)  # Tracing is not timed; what that step did is undone.
    steps_of = {"model": step, "device": lambda images, labels: time.sleep(step_ms / 1e3)}
    figures: dict[str, Any] = {"images": len(files), "steps": steps, "once_s": feed.once_s}
    for kind, one_step in steps_of.items():
        figures[kind] = []
        for _ in range(epochs):
            timed, labels = time_epoch(feed, one_step)
            assert labels == expected, "an epoch's labels are not those of the files"
            figures[kind].append(timed)
    return figures | {"accuracy": measure_accuracy(model, feed, job)}


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("feed", choices=FEEDS)
    parser.add_argument("--images", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    for name in ("epochs", "batch-size", "seed", "limit"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--step-ms", type=float, required=True)
    said = parser.parse_args()
    job = Job(said.images.resolve(), said.work, said.batch_size, said.seed, said.limit)
    with contextlib.redirect_stdout(sys.stderr):
        figures = measure(said.feed, job, said.epochs, said.step_ms)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
