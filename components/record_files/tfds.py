"""Data sets as TensorFlow Datasets (TFDS) lays them out on disk, read without that library.

A folder `<name>[/<config>]/<version>` has TFRecords of tf.Examples, `dataset_info.json` with the
splits, `features.json`, and the names of each class label in a file of lines.
"""

import dataclasses
import functools
import json
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.box_cells import BOXES, CLASSES, FORMAT, SIZE, StatedBoxes
from image_pipeline.components.sources.column_types import Items
from image_pipeline.components.sources.file_names import Files
from image_pipeline.components.sources.source_kinds import SourceKind, read_rows

_PREFIX = "tfds:"
_INFO, _FEATURES, _LABELS = "dataset_info.json", "features.json", ".labels.txt"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_DATA_DIR = "TFDS_DATA_DIR"
_FORMATS = {"REL_YXYX": "rel_yxyx", "REL_XYXY": "rel_xyxy", "YXYX": "yxyx", "XYXY": "xyxy"}
_FORMATS |= {"XYWH": "xywh", "REL_XYWH": "rel_xywh"}
NO_NAME = "object"
"""The class of boxes that have none."""


@dataclasses.dataclass(frozen=True)
class Described:
    """What `features.json` says of features.

    Attributes:
      labels: the names of class labels' values, by the features' names.
      boxes: the format of boxes, see `BoxOptions`, by the features' names.
    """

    labels: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    boxes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def name_values(self, cells: dict[str, Any]) -> dict[str, Any]:
        """A row's cells with names for numbers of classes, and with boxes as one cell."""
        for name, names in self.labels.items():
            if isinstance(numbers := cells.get(name), Items) and numbers.kind == "int":
                cells[name] = Items([_name_of(number, names) for number in numbers], "string")
        for name, format_ in self.boxes.items():
            if isinstance(numbers := cells.get(name), Items):
                cells = self._join_boxes(cells, name, format_)
        return cells

    def _join_boxes(self, cells: dict[str, Any], name: str, format_: str) -> dict[str, Any]:
        """The cells with those of boxes joined, under the name of their feature."""
        beside = posixpath.dirname(name)
        numbers, count = cells[name], len(cells[name]) // 4
        label = next((each for each in self.labels if posixpath.dirname(each) == beside), "")
        crowd = f"{beside}/is_crowd"
        names = cells.get(label) or [NO_NAME] * count
        crowds = cells.get(crowd) or [0] * count
        if not len(numbers) == 4 * len(names) == 4 * len(crowds):
            return cells | {name: "boxes and classes that differ in number"}
        boxes = [
            {"bbox": list(numbers[4 * at : 4 * at + 4]), "category": names[at], "iscrowd": crowd_}
            for at, crowd_ in enumerate(crowds)
        ]
        stated = {SIZE: [], BOXES: boxes, FORMAT: format_, CLASSES: self.labels.get(label, ())}
        kept = {each: cell for each, cell in cells.items() if each not in (name, label, crowd)}
        return kept | {beside or name: StatedBoxes(stated)}


def is_tfds(folder: str) -> bool:
    """Tells whether a folder is a data set's of one version."""
    return all(os.path.isfile(f"{folder}/{name}") for name in (_INFO, _FEATURES))


def _find_folder(images: str) -> str:
    """The folder of a data set.

    Args:
      images: itself, or `tfds:NAME`, with `/CONFIG` and `:VERSION` behind it, or neither; without
        a version the newest one.

    Raises:
      UserError: if it was never prepared, or it has several configs.
    """
    if not images.startswith(_PREFIX):
        return images
    name, _, version = images.removeprefix(_PREFIX).partition(":")
    data_dir = os.path.expanduser(os.environ.get(_DATA_DIR) or "~/tensorflow_datasets")
    folder = f"{data_dir}/{name}"
    versions = _list(folder, _VERSION.fullmatch)
    if not versions and len(configs := [c for c in _list(folder) if _list(f"{folder}/{c}")]):
        if len(configs) > 1:
            raise UserError(
                f"{images!r} has several configs; name one, as in {_PREFIX}{name}/{configs[0]}: "
                f"{', '.join(configs)}."
            )
        folder = f"{folder}/{configs[0]}"
        versions = _list(folder, _VERSION.fullmatch)
    versions.sort(key=lambda each: [int(part) for part in each.split(".")])
    chosen = version or (versions[-1] if versions else "")
    if not is_tfds(f"{folder}/{chosen}"):
        known = f"there is {', '.join(versions)}" if versions else "there is none"
        raise UserError(
            f"No data set {images!r} is prepared in {data_dir!r} ({known}); prepare it by "
            f"tfds.load, or set {_DATA_DIR} to the folder that has it."
        )
    return f"{folder}/{chosen}"


def _list_shards(images: str) -> Files:
    """The files of a data set and the split of each.

    Raises:
      UserError: if some are missing, or they are not TFRecords.
    """
    folder = _find_folder(images)
    info = _read_json(f"{folder}/{_INFO}")
    if (kind := info.get("fileFormat", "tfrecord")) != "tfrecord":
        raise UserError(
            f"The data set {folder!r} has files of the format {kind}, which are not read; prepare "
            "it with file_format='tfrecord', or convert it by TFDS's script convert_format."
        )
    found: Files = []
    for split in info.get("splits", []):
        pattern = re.compile(rf".+-{re.escape(split['name'])}\.tfrecord(-\d+-of-\d+)?")
        shards = sorted(_list(folder, pattern.fullmatch))
        if len(shards) != (needed := len(split.get("shardLengths", shards))):
            raise UserError(
                f"The split {split['name']!r} of the data set {folder!r} has {len(shards)} of "
                f"{needed} files; prepare it again."
            )
        found += [(f"{folder}/{name}", str(split["name"])) for name in shards]
    return found


def describe(path: str) -> Described:
    """What is known of the features in a file; nothing if it belongs to no such data set."""
    folder = os.path.dirname(path) or "."
    return _describe(folder) if files.is_local(path) and is_tfds(folder) else Described()


@functools.lru_cache(maxsize=16)
def _describe(folder: str) -> Described:
    found = dict(_walk(_read_json(f"{folder}/{_FEATURES}"), ""))
    labels = {}
    for name, feature in found.items():
        path = f"{folder}/{name.replace('/', '-')}{_LABELS}"
        if "classLabel" in feature and os.path.isfile(path):
            labels[name] = files.read_file(path).decode().splitlines()
    boxes = {n: f["boundingBox"] for n, f in found.items() if "boundingBox" in f}
    return Described(
        labels,
        {name: _FORMATS.get(box.get("bboxFormat", ""), "rel_yxyx") for name, box in boxes.items()},
    )


def _walk(feature: Any, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """All features by the names that they have in tf.Examples."""
    if not isinstance(feature, dict):
        return []
    if "sequence" in feature:
        return _walk(feature["sequence"].get("feature"), name)
    if "featuresDict" in feature:
        below = feature["featuresDict"].get("features", {})
        return [each for n in below for each in _walk(below[n], f"{name}/{n}".lstrip("/"))]
    return [(name, feature)]


def _name_of(number: int, names: Sequence[str]) -> str:
    """Of a class; nothing for -1, which stands for none."""
    return names[number] if 0 <= number < len(names) else "" if number == -1 else str(number)


def _read_json(path: str) -> dict[str, Any]:
    try:
        found = json.loads(files.read_file(path))
    except ValueError as error:
        raise UserError(
            f"{path!r} is not valid JSON ({error}); prepare the data set again."
        ) from error
    return found if isinstance(found, dict) else {}


def _list(folder: str, is_meant: Any = lambda name: True) -> list[str]:
    """The names in a folder that are meant; none if there is no such folder."""
    try:
        return [name for name in sorted(os.listdir(folder)) if is_meant(name)]
    except OSError:
        return []


TFDS = SourceKind(
    name="a TFDS data set",
    prefix=_PREFIX,
    recognise=is_tfds,
    files=_list_shards,
    folder=lambda images: _find_folder(images.rstrip("/")),
    rows=read_rows,
    takes_shape=True,
)
