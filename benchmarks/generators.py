"""`from_generators` beside `tf.data.Dataset.from_generator`: a generator that computes in Python.

    python benchmarks/generators.py [--milliseconds 3] [--items 1500] [--workers 2] [--repeats 3]

An item is an image of 224 × 224 × 3 and a label, after some milliseconds of Python. Both give the
same items; each way is timed from the second batch of 32 on, so that neither imports nor the start
of processes count (they are shown as the wait for the first), and they take turns. CPU seconds are
user + system of this process and of its workers, over the whole pass.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import image_pipeline

SIGNATURE = (tf.TensorSpec((224, 224, 3), tf.uint8), tf.TensorSpec((), tf.int64))
SHARDS, BATCH = 8, 32


def make_generator(milliseconds: float, items: int) -> Callable:
    """A generator function that keeps Python busy for so long an item."""

    def make(shard, shards):  # type: ignore[no-untyped-def]
        image = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
        for number in range(shard, items, shards):
            until_s, turns = time.thread_time() + milliseconds / 1e3, 0
            while time.thread_time() < until_s:
                turns += 1
            image[0, 0] = number % 256
            yield image, number

    return make


def time_pass(data: tf.data.Dataset, items: int) -> tuple[float, float, float]:
    """Items a second behind the first batch, seconds until it, and CPU seconds an item."""
    before, started = _cpu_seconds(), time.monotonic()
    batches = iter(data)
    seen = len(next(batches)[1])
    first_s = time.monotonic() - started
    for _, labels in batches:
        seen += len(labels)
    seconds = time.monotonic() - started - first_s
    del batches
    assert seen == items, f"{seen} of {items} items came"
    return (items - BATCH) / seconds, first_s, (_cpu_seconds() - before) / items


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def main() -> None:
    """Prints a line for each way, and the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--milliseconds", type=float, default=3)
    parser.add_argument("--items", type=int, default=1500)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    make = make_generator(given.milliseconds, given.items)
    plain = tf.data.Dataset.from_generator(lambda: make(0, 1), output_signature=SIGNATURE)
    read = image_pipeline.from_generators
    ours = read(make, SHARDS, SIGNATURE, workers=given.workers)
    joined = read(make, SHARDS, SIGNATURE, workers=given.workers, batch_size=BATCH)
    ways = {
        "from_generator().batch": plain.batch(BATCH).prefetch(2),
        "from_generators().batch": ours.batch(BATCH).prefetch(2),
        "from_generators(batch_size)": joined.prefetch(2),
    }
    rounds = [
        {name: time_pass(data, given.items) for name, data in ways.items()}
        for _ in range(given.repeats)
    ]
    for name in ways:
        speed, first_s, cpu_s = map(
            statistics.median, zip(*(each[name] for each in rounds), strict=True)
        )
        ratio = statistics.median(
            each[name][0] / each["from_generator().batch"][0] for each in rounds
        )
        print(
            f"{name:<28}{speed:7.0f} items/s  {ratio:5.2f} x  {1e3 * cpu_s:6.2f} ms CPU an item  "
            f"{first_s:5.2f} s to the first batch"
        )


if __name__ == "__main__":
    main()
