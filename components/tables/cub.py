"""CUB-200's lists: text files, an image a line, named by a number (vision.caltech.edu/datasets).

`images.txt` has paths, `image_class_labels.txt` numbers of classes, and may have beside it
`classes.txt`, `train_test_split.txt` (1 for training) and `bounding_boxes.txt`.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from image_pipeline.components.labels.box_cells import BOXES, FORMAT, SIZE, StatedBoxes
from image_pipeline.components.messages import show
from image_pipeline.components.sources.rows import Row, TableError
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.tables.annotated_folders import say_splits
from image_pipeline.components.tables.text_rows import open_lines

_IMAGES, _LABELS = "images.txt", "image_class_labels.txt"
_CLASSES, _SPLITS, _BOXES = "classes.txt", "train_test_split.txt", "bounding_boxes.txt"
_NAMED = {"1": "train", "0": "test"}


def read_cub(folder: str, columns: Asked) -> Iterator[Row]:
    """Reads the lists: a row an image, with its class, or the box of it if boxes are asked for.

    Yields:
      Rows in the order of `images.txt`; one of which a list says nothing, or what cannot be, has a
      problem.

    Raises:
      TableError: if a line is invalid, or a number appears twice.
    """
    images, labels = (_read_list(folder, name) for name in (_IMAGES, _LABELS))
    classes, splits, boxes = (_read_list(folder, name) for name in (_CLASSES, _SPLITS, _BOXES))
    are_boxes = columns.get("boxes") == BOXES
    seen = []
    for line, (id_, path) in enumerate(images.items(), 1):
        try:
            name = _find(_LABELS, labels, id_)
            name = _find(_CLASSES, classes, name) if classes else name
            split = _find(_SPLITS, splits, id_) if splits else None
            if split is not None and split not in _NAMED:
                raise ValueError(f"{_SPLITS} gives it {show(split)}, but it must be 1 or 0")
            box = _read_box(_find(_BOXES, boxes, id_)) if are_boxes else []
        except ValueError as error:
            yield Row(line, {}, f"the image {show(id_)}: {error}")
            continue
        cells: dict[str, Any] = {"image": os.path.abspath(os.path.join(folder, "images", path))}
        if are_boxes:
            stated = {SIZE: [], BOXES: [{"bbox": box, "category": name}], FORMAT: "xywh"}
            cells[BOXES] = StatedBoxes(stated)
        else:
            cells["label"] = name
        if split is not None:
            cells["split"] = _NAMED[split]
            seen.append(_NAMED[split])
        yield Row(line, cells)
    asks = f"; ingest.columns={{boxes: {BOXES}}} takes {_BOXES}" if boxes and not are_boxes else ""
    what = f"boxes of {_BOXES}" if are_boxes else f"classes of {_LABELS}"
    understood(f"CUB-200's lists: {what}{say_splits(seen)}{asks}")
    if strays := labels.keys() - images.keys():
        noticed(f"{_LABELS} has images that {_IMAGES} does not list: {len(strays):,}")


def _read_list(folder: str, name: str) -> dict[str, str]:
    """What a list says of each number; nothing if it is not there."""
    found: dict[str, str] = {}
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return found
    with open_lines(path) as lines:
        for line, text in enumerate(lines, 1):
            id_, value = (*text.split(None, 1), "", "")[:2]
            if not id_:
                continue
            if not value:
                raise TableError(line, f"{name} has no value for {show(id_)}; add it.")
            if id_ in found:
                raise TableError(line, f"{name} has the number {show(id_)} twice; keep one.")
            found[id_] = value.strip()
    return found


def _find(name: str, found: Mapping[str, str], key: str) -> str:
    if key not in found:
        raise ValueError(f"{name} has no line for {show(key)}")
    return found[key]


def _read_box(text: str) -> list[float]:
    try:
        left, top, width, height = map(float, text.split())
    except ValueError as error:
        raise ValueError(f"{_BOXES} gives it {show(text)}, which are not four numbers") from error
    return [left, top, width, height]


CUB = SourceKind(
    name="a folder of CUB-200's lists",
    in_folder=lambda folder: all(
        os.path.isfile(os.path.join(folder, name)) for name in (_IMAGES, _LABELS)
    ),
    files=list_whole,
    rows=read_cub,
)
