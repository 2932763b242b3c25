"""The deterministic view's resize: what it costs, and how near it is to Pillow's.

    python benchmarks/views.py --images PHOTOS [--photos 100] [--repeats 5]

Photos are decoded once, then taken to a centre view of 224 px (7/8 of the shorter side) by the
fast version of `input_fn`, by the graph that travels in an exported model, by OpenCV's
`INTER_AREA`, by Pillow, and by TensorFlow's antialiased resize followed by a crop. CPU ms a photo,
the least of the repetitions. The first two must be equal, to the bit; the distance of each to
Pillow's bilinear filter is in grey levels.
"""

import argparse
import pathlib
import time
from collections.abc import Callable

import cv2
import numpy as np
import simplejpeg
import tensorflow as tf
from PIL import Image

from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast import take_eval_view
from image_pipeline.components.views.options import ViewOptions, resized_size

VIEW = ViewOptions(crop_fraction=0.875)
SIDE = VIEW.height_px

Resize = Callable[[np.ndarray], np.ndarray]


def place(image: np.ndarray) -> tuple[tuple[int, int], int, int]:
    """The size to which a photo is resized, and top and left of the view in it."""
    size = resized_size(image.shape[:2], VIEW)
    return size, (size[0] - SIDE) // 2, (size[1] - SIDE) // 2


def cut(resized: np.ndarray, image: np.ndarray) -> np.ndarray:
    """The view in a whole resized photo."""
    _, top, left = place(image)
    return resized[top : top + SIDE, left : left + SIDE]


def by_input_fn(image: np.ndarray) -> np.ndarray:
    """What analysis, evaluation and `input_fn` do."""
    out = np.empty((SIDE, SIDE, 3), np.uint8)
    take_eval_view(image, VIEW, out)
    return out


@tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.uint8)])
def _graph(image: tf.Tensor) -> tf.Tensor:
    return views.eval_view(image, VIEW)


def by_graph(image: np.ndarray) -> np.ndarray:
    """What an exported model does."""
    return _graph(image).numpy()


def by_tensorflow(image: np.ndarray) -> np.ndarray:
    """`tf.image.resize` with `antialias`."""
    return cut(np.rint(tf.image.resize(image, place(image)[0], antialias=True)), image)


def by_opencv(image: np.ndarray) -> np.ndarray:
    """Of the whole photo, as the others."""
    return cut(cv2.resize(image, place(image)[0][::-1], interpolation=cv2.INTER_AREA), image)


def by_pillow(image: np.ndarray) -> np.ndarray:
    """The reference."""
    size = place(image)[0][::-1]
    return cut(np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR)), image)


WAYS: dict[str, Resize] = {
    "input_fn": by_input_fn,
    "graph": by_graph,
    "TensorFlow": by_tensorflow,
    "OpenCV": by_opencv,
    "Pillow": by_pillow,
}


def measure_ms(way: Resize, photos: list[np.ndarray], repeats: int) -> float:
    """CPU milliseconds a photo."""
    way(photos[0])
    found = []
    for _ in range(repeats):
        started = time.process_time()
        for photo in photos:
            way(photo)
        found.append((time.process_time() - started) / len(photos) * 1e3)
    return min(found)


def main() -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True, type=pathlib.Path)
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    paths = sorted(p for p in arguments.images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    photos = [simplejpeg.decode_jpeg(p.read_bytes(), "RGB") for p in paths[: arguments.photos]]
    unequal = sum(not np.array_equal(by_input_fn(photo), by_graph(photo)) for photo in photos)
    print(f"{len(photos)} photos; input_fn and graph differ in {unequal}")
    print("              CPU ms   from Pillow's: mean   worst")
    for name, way in WAYS.items():
        off = [np.abs(way(photo).astype(int) - by_pillow(photo).astype(int)) for photo in photos]
        mean, worst = np.mean([each.mean() for each in off]), max(int(each.max()) for each in off)
        cost = measure_ms(way, photos, arguments.repeats)
        print(f"  {name:<10}{cost:>8.3f}{mean:>22.3f}{worst:>8}")


if __name__ == "__main__":
    main()
