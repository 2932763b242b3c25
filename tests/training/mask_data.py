"""A small data set of images with masks, for tests: coloured rectangles on noise."""

import functools
import io
import pathlib
import tempfile

import numpy as np

from image_pipeline.components.dataset.tfrecord import read_records
from image_pipeline.components.feeding.records import match_files
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import encode_png
from tests.ingest_runs import ingest
from tests.transform.analyze import make_pipeline

CLASSES = ["ground", "red", "green"]
# Neither the images' size, 20 x 26, nor their shape: the view is resized and cut.
VIEW = ViewOptions(height_px=16, width_px=17)
_KEPT: list[tempfile.TemporaryDirectory] = []  # removed when the interpreter ends


def draw_pair(seed: int, height: int = 20, width: int = 26) -> tuple[np.ndarray, np.ndarray]:
    """An image and its mask: a red or green rectangle on dark noise; the first row is ignored.

    Returns:
      uint8 [height, width, 3] and uint8 [height, width].
    """
    draws = np.random.default_rng(seed)
    image = draws.integers(0, 80, (height, width, 3), np.uint8)
    mask = np.zeros((height, width), np.uint8)
    top, left = draws.integers(1, height // 2), draws.integers(0, width // 2)
    inside = (slice(top, top + height // 2), slice(left, left + width // 2))
    mask[inside] = 1 + seed % 2
    image[(*inside, seed % 2)] = 250
    mask[0] = 255
    return image, mask


@functools.cache
def write_data(count: int = 40) -> pathlib.Path:
    """Ingests and analyses so many pairs; a folder with `data` and `graph`. Do not write to it."""
    folder = tempfile.TemporaryDirectory(prefix="masks-")
    _KEPT.append(folder)
    root = pathlib.Path(folder.name)
    for kind in ("images", "masks"):
        (root / "raw" / kind).mkdir(parents=True)
    for number in range(count):
        for kind, pixels in zip(("images", "masks"), draw_pair(number), strict=True):
            (root / "raw" / kind / f"{number:03d}.png").write_bytes(encode_png(pixels))
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png", "classes": CLASSES}
    ingest(root / "raw", root / "data", masks=masks)
    run_analysis(str(root / "data"), str(root / "graph"), VIEW, TransformOptions(), make_pipeline)
    return root


def split_pattern(split: str) -> str:
    """The pattern of a split's shards."""
    return str(write_data() / "data" / f"Split-{split}" / "*")


def read_examples(split: str) -> list[bytes]:
    """The split's serialized records."""
    return [
        record
        for path in match_files([split_pattern(split)])
        for record in read_records(io.BytesIO(pathlib.Path(path).read_bytes()))
    ]
