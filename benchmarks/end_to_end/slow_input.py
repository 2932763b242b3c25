"""A batch takes 2 s to prepare and the step 1 s: what overlapping and parallel work make of it.

Preparing and stepping only wait, as for a disk and for an accelerator. Each way has a floor, that
is its time if nothing else took any: n batches of prepare p and step s take n(p + s) one after the
other, n max(p, s) with the next batch prepared during the step, and n max(p / w, s) if w are
prepared at once. Before the first step a batch must be prepared, which is p more for the last two.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from image_pipeline import api

WORKERS = 2
SIGNATURE = tf.TensorSpec((8,), tf.int64)
AHEAD = 2


def run(prepare_s: float, step_s: float, batches: int) -> str:
    """The table, as Markdown."""
    p, s = prepare_s, step_s
    ways: dict[str, tuple[tf.data.Dataset, float]] = {
        "`from_generator`": (_generate(p, batches), batches * (p + s)),
        "`from_generator`, `prefetch`": (
            _generate(p, batches).prefetch(AHEAD),
            p + (batches - 1) * max(p, s) + s,
        ),
        f"`map` of {WORKERS} at once, `prefetch`": (
            _map(p, batches).prefetch(AHEAD),
            p + (batches - 1) * max(p / WORKERS, s) + s,
        ),
        f"this project's `from_generators`, {WORKERS} processes": (
            api.from_generators(_make(p, batches), WORKERS, SIGNATURE, workers=WORKERS),
            p + (batches - 1) * max(p / WORKERS, s) + s,
        ),
    }
    lines = [
        f"{batches} batches of {p:g} s to prepare and {s:g} s a step; both only wait.",
        "",
        "| | floor | measured | from the first batch on, a step |",
        "|---|---|---|---|",
    ]
    for name, (data, floor_s) in ways.items():
        total_s, rest_s = _time(data, step_s, batches)
        rest = rest_s / max(batches - 1, 1)
        lines.append(f"| {name} | {floor_s:.1f} s | {total_s:.1f} s | {rest:.2f} s |")
    return "\n".join(lines)


def _make(prepare_s: float, batches: int) -> Callable[[int, int], Iterator[np.ndarray]]:
    def make(shard: int, shards: int) -> Iterator[np.ndarray]:
        for number in range(shard, batches, shards):
            time.sleep(prepare_s)
            yield np.full(8, number)

    return make


def _generate(prepare_s: float, batches: int) -> tf.data.Dataset:
    make = _make(prepare_s, batches)
    data = tf.data.Dataset.from_generator(lambda: make(0, 1), output_signature=SIGNATURE)
    return data.with_options(_options())


def _map(prepare_s: float, batches: int) -> tf.data.Dataset:
    def prepare(number: np.ndarray) -> np.ndarray:
        time.sleep(prepare_s)
        return np.full(8, number)

    numbers = tf.data.Dataset.range(batches)
    mapped = numbers.map(lambda n: tf.numpy_function(prepare, [n], tf.int64), WORKERS)
    return mapped.with_options(_options())


def _options() -> tf.data.Options:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 4  # each wait holds a thread
    options.experimental_optimization.inject_prefetch = False  # which TensorFlow adds by itself
    return options


def _time(data: tf.data.Dataset, step_s: float, batches: int) -> tuple[float, float]:
    """Seconds of a pass, and those behind its first step; every batch must come once, in order."""
    started, first, seen = time.perf_counter(), 0.0, []
    for batch in data:
        time.sleep(step_s)
        first = first or time.perf_counter()
        seen.append(int(batch[0]))
    assert seen == list(range(batches)), seen
    ended = time.perf_counter()
    return ended - started, ended - first
