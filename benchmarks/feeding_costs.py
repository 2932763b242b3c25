"""What the order, the keys, the random steps and the transform graph cost `input_fn`, each alone.

    python benchmarks/feeding_costs.py DATA GRAPH [--size 224] [--batch-size 64] [--steps a b …]

DATA is a data set as ingest writes it, GRAPH the folder of its transform graph. Prints milliseconds
of processor time an image, the best of five rounds.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.feeding.finishing import make_augment
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import KEY, MIRRORED, BatchReader
from image_pipeline.components.feeding.records import match_files
from image_pipeline.components.views.options import ViewOptions


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("graph")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", nargs="*", default=["flip_horizontal"])
    arguments = parser.parse_args()
    view = ViewOptions(height_px=arguments.size, width_px=arguments.size)
    feeding = FeedingOptions(batch_size=arguments.batch_size, augment=arguments.steps)
    index = read_index(match_files([f"{arguments.data}/Split-train/*"]))
    reader = BatchReader(index, view, feeding, Passes(mode="train"))
    size = min(arguments.batch_size, len(index))
    drawn = reader.draw(0, 0)
    images = np.random.default_rng(0).integers(
        0, 256, (size, view.height_px, view.width_px, view.channels), np.uint8
    )
    pixels = TransformGraph(arguments.graph).compile_pixels()
    augment = tf.function(make_augment(feeding, view))
    keys, mirrored = tf.constant(drawn[KEY]), tf.constant(drawn[MIRRORED])
    parts: dict[str, Callable[[], Any]] = {
        "exact order": lambda: reader.draw_records(0, 0),
        "order and keys": lambda: reader.draw(0, 0),
        f"steps {' '.join(arguments.steps)}": lambda: augment(Batch(images), keys, mirrored),
        "transform graph": lambda: pixels(images),
    }
    images = tf.constant(images)
    for name, part in parts.items():
        print(f"{name:<40} {_time_ms(part) / size:.5f} ms an image")


def _time_ms(part: Callable[[], Any], calls: int = 20, rounds: int = 5) -> float:
    part()
    best_ms = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(calls):
            part()
        best_ms = min(best_ms, (time.process_time() - started) * 1000 / calls)
    return best_ms


if __name__ == "__main__":
    main()
