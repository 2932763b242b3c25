"""A small data set of images with boxes, for tests: coloured rectangles on dark noise."""

import functools
import io
import json
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

CLASSES = ["green", "red"]
# Neither the images' size, 48 x 64, nor their shape: the view is resized and cut.
VIEW = ViewOptions(height_px=40, width_px=48)
MOST = 3
_KEPT: list[tempfile.TemporaryDirectory] = []  # removed when the interpreter ends


def draw_boxes(
    seed: int, height: int = 48, width: int = 64
) -> tuple[np.ndarray, list[dict[str, object]]]:
    """An image of one to three red or green rectangles, apart from each other, and their boxes.

    Returns:
      uint8 [height, width, 3], and of each rectangle its `bbox` (left, top, width, height in
      pixels) and `category`.
    """
    draws = np.random.default_rng(seed)
    image = draws.integers(0, 80, (height, width, 3), np.uint8)
    part = width // MOST
    boxes: list[dict[str, object]] = []
    for number in draws.permutation(MOST)[: 1 + seed % MOST].tolist():
        wide, high = (int(draws.integers(part // 2, most)) for most in (part, height // 2))
        left = number * part + int(draws.integers(0, part - wide))
        top = int(draws.integers(0, height - high))
        id_ = int(draws.integers(len(CLASSES)))
        image[top : top + high, left : left + wide] = (0, 250, 0) if id_ == 0 else (250, 0, 0)
        boxes.append({"bbox": [left, top, wide, high], "category": CLASSES[id_]})
    return image, boxes


def write_table(folder: pathlib.Path, count: int) -> pathlib.Path:
    """Writes so many images, every tenth without an object, and a table of them."""
    folder.mkdir(parents=True)
    rows = []
    for number in range(count):
        image, boxes = draw_boxes(number)
        if number % 10 == 9:
            image, boxes = image % 80, []
        (folder / f"{number:03d}.png").write_bytes(encode_png(image))
        rows.append(json.dumps({"path": f"{number:03d}.png", "boxes": boxes}))
    table = folder / "table.jsonl"
    table.write_text("\n".join(rows) + "\n")
    return table


@functools.cache
def write_data(count: int = 40) -> pathlib.Path:
    """Ingests and analyses so many; a folder with `data` and `graph`. Do not write to it."""
    folder = tempfile.TemporaryDirectory(prefix="boxes-")
    _KEPT.append(folder)
    root = pathlib.Path(folder.name)
    ingest(write_table(root / "raw", count), root / "data")
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
