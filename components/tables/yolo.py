"""YOLO: a text file of boxes an image, in `labels/` where images are in `images/`, or beside them.

A line is a class's number, and the box's centre, width and height as shares of the image's sides
(https://docs.ultralytics.com/datasets/detect/). `data.yaml` names the classes and the splits.
"""

import collections
import dataclasses
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from image_pipeline.components.labels.box_cells import BOXES, CLASSES, FORMAT, SIZE, StatedBoxes
from image_pipeline.components.messages import show
from image_pipeline.components.sources.file_names import split_in_path
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.rows import Row, TableError
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.tables.annotated_folders import (
    glance,
    images_by_stem,
    read_head,
    say_splits,
    walk,
)

_LINE = re.compile(r"\s*\d+(\s+[-+\d.e]+){4,}\s*")
_IMAGES = ("images", "jpegimages", "imgs", "img")  # beside which one of these may be
_LABELS = ("labels", "Labels", "annotations", "Annotations")
_NAMES = ("classes.txt", "obj.names", "predefined_classes.txt", "class.names")
_DATA = "obj.data"  # Darknet's, which names lists of images
_MOST_BYTES = 2**22  # of a file of labels
_MOST_LOOKED_AT = 20  # texts of a folder, to tell whether they are labels


@dataclasses.dataclass(frozen=True)
class _Form:
    """What lines of labels hold: classes by number, so many numbers of keypoints; what was seen."""

    classes: Mapping[int, str]
    keypoints: int
    seen: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


def _is_yolo(folder: str) -> bool:
    """Whether a YAML file names classes, or a file of labels has lines of boxes."""
    if _find_yaml(folder) is not None:
        return True
    for below, _, names in glance(folder):
        is_usual = not {*_LABELS}.isdisjoint(below.split("/")) or any(
            each in names for each in _NAMES
        )
        if "image_class_labels.txt" in names:
            continue  # CUB-200's lists, of which one has boxes.
        texts = [name for name in names if name.endswith(".txt") and name not in _NAMES]
        for stem in (name[:-4] for name in texts[:_MOST_LOOKED_AT]):
            lines = read_head(os.path.join(folder, below, f"{stem}.txt")).decode(errors="replace")
            if (
                lines.strip()
                and _LINE.fullmatch(lines.splitlines()[0])
                and (is_usual or stem in images_by_stem(os.path.join(folder, below)))
            ):
                return True
    return False


def _find_yaml(folder: str) -> dict[str, Any] | None:
    """What a YAML file says that names classes; None if there is none."""
    names = next((names for below, _, names in glance(folder) if not below), [])
    for name in (each for each in names if each.endswith((".yaml", ".yml"))):
        try:
            settings = yaml.safe_load(read_head(os.path.join(folder, name), 2**20))
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        if isinstance(settings, dict) and isinstance(settings.get("names"), list | dict):
            return settings
    return None


def read_yolo(folder: str, columns: Asked) -> Iterator[Row]:
    """Reads the images below a folder, each with its file of labels, in the order of their paths.

    Yields:
      A row an image, its boxes and its split. One without a file of labels has no boxes.

    Raises:
      TableError: if nothing names the classes, or no image has a file of labels.
    """
    settings = _find_yaml(folder) or _read_data(folder)
    form = _Form(_name_classes(folder, settings), _count_keypoints(settings))
    lists = _read_lists(folder, settings)
    number, without, splits = 0, 0, []
    for below, _, names in walk(folder):
        for name in names:
            if os.path.splitext(name)[1].lower() not in IMAGE_ENDINGS:
                continue
            path = f"{below}/{name}" if below else name
            number += 1
            last = below, os.path.splitext(name)[0]
            split = lists.get(path) or split_in_path(below)
            cells: dict[str, Any] = {"image": os.path.abspath(os.path.join(folder, path))}
            try:
                boxes = _read_boxes(folder, below, name, form)
            except ValueError as error:
                yield Row(number, {}, str(error))
                continue
            without += boxes is None
            stated = {SIZE: [], BOXES: boxes or [], FORMAT: "rel_center_xywh"}
            cells["boxes"] = StatedBoxes(
                stated | ({CLASSES: list(form.classes.values())} if number == 1 else {})
            )
            splits.append(split)
            yield Row(number, cells | ({"split": split} if split else {}))
    if number and without == number:
        raise TableError(
            1,
            f"{folder} has {number:,} images, and none has a file of labels: that of {last[1]!r} "
            f"would be {_places(*last)[0]!r}, with lines such as "
            "'0 0.5 0.5 0.2 0.3'. Export it with YOLO's boxes; or set ingest.label_pattern=null on "
            "the folder of images alone.",
        )
    others = [
        f"; {count:,} lines have {what}, of which the box is taken"
        for what, count in sorted(form.seen.items())
    ]
    what = "boxes are centre and sides as shares of the image"
    understood(f"YOLO: {what}{''.join(others)}{say_splits(splits)}")
    if without:
        is_one = "1 image has" if without == 1 else f"{without:,} images have"
        noticed(f"YOLO: {is_one} no file of labels, and so no boxes")


def _read_data(folder: str) -> dict[str, Any]:
    """What Darknet's `obj.data` says of lists of images, as `data.yaml` would; or usual lists."""
    text = read_head(os.path.join(folder, _DATA)).decode(errors="replace")
    pairs = (line.partition("=") for line in text.splitlines())
    settings = {key.strip(): value.strip() for key, _, value in pairs}
    settings = {
        "train": settings.get("train", "train.txt"),
        "val": settings.get("valid", "valid.txt"),
    }
    return {
        split: each for split, each in settings.items() if os.path.isfile(_find_below(folder, each))
    }


def _find_below(folder: str, path: str) -> str:
    """The longest ending of a path that is below a folder; all but `../` of it if none is."""
    parts = path.split("/")
    ends = (os.path.join(folder, *parts[number:]) for number in range(len(parts)))
    given = os.path.normpath(os.path.join(folder, path.removeprefix("../")))
    return next((end for end in ends if os.path.exists(end)), given)


def _count_keypoints(settings: Mapping[str, Any]) -> int:
    """How many numbers of keypoints follow a box, by `kpt_shape`; 0 if it says none."""
    shape = settings.get("kpt_shape")
    is_shape = isinstance(shape, list) and all(type(each) is int for each in shape)
    return math.prod(shape) if is_shape and shape else 0


def _name_classes(folder: str, settings: Mapping[str, Any]) -> dict[int, str]:
    if "names" in settings:
        return _check_names(folder, settings["names"], settings.get("nc"))
    named = {}
    for below, _, found in walk(folder):
        for path in (os.path.join(folder, below, name) for name in _NAMES if name in found):
            lines = read_head(path, 2**20).decode(errors="replace").splitlines()
            named[tuple(line.strip() for line in lines if line.strip())] = path
    if len(named) == 1:
        return dict(enumerate(next(iter(named))))
    if named:
        raise TableError(
            1,
            f"{' and '.join(list(named.values())[:2])} name different classes, so these may be two "
            "data sets; ingest one of them, or leave one list of names.",
        )
    raise TableError(
        1,
        f"{folder} has YOLO's boxes, but nothing names their classes; add data.yaml with "
        "names: [cat, dog], or classes.txt with a name a line.",
    )


def _check_names(folder: str, settings: Any, count: Any) -> dict[int, str]:
    """The classes that a YAML file names, by their numbers; raises TableError."""
    names = dict(enumerate(settings)) if isinstance(settings, list) else dict(settings)
    if not all(isinstance(number, int) and number >= 0 for number in names):
        raise TableError(1, f"{folder}: names must have whole numbers, as in names: {{0: cat}}.")
    if not all(isinstance(name, str | int | float) for name in names.values()):
        raise TableError(1, f"{folder}: names must be texts, as in names: [cat, dog].")
    if isinstance(count, int) and count != len(names):
        raise TableError(1, f"{folder}: nc is {count}, but names has {len(names)}; correct one.")
    named = {number: str(names[number]).strip() for number in sorted(names)}
    counts = collections.Counter(named.values())
    if again := [name for name, many in counts.items() if many > 1]:
        raise TableError(1, f"{folder}: two classes are called {again[0]!r}; rename one.")
    return named


def _read_lists(folder: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """The split of each image that a list of data.yaml names, by its path below the folder."""
    found: dict[str, str] = {}
    for split in ("train", "val", "test"):
        named = settings.get(split)
        if split != "train" and named == settings.get("train"):
            continue
        for each in named if isinstance(named, list) else [named]:
            if not isinstance(each, str):
                continue
            start = os.path.join(folder, str(settings.get("path") or ""))
            place = next(
                (
                    p
                    for p in (os.path.join(start, each), os.path.join(folder, each))
                    if os.path.exists(p)
                ),
                _find_below(folder, each),
            )
            if os.path.isfile(place):
                lines = read_head(place, 2**26).decode(errors="surrogateescape").splitlines()
                paths = (
                    os.path.normpath(os.path.join(os.path.dirname(place), x.strip()))
                    for x in lines
                    if x.strip()
                )
                found |= {
                    os.path.relpath(
                        path if os.path.exists(path) else _find_below(folder, path), folder
                    ): split
                    for path in paths
                }
            elif os.path.isdir(place) and not os.path.samefile(place, folder):
                for below, _, names in walk(place):
                    for name in names:
                        path = os.path.relpath(os.path.join(place, below, name), folder)
                        found.setdefault(path, split)
    return found


def _read_boxes(folder: str, below: str, name: str, form: _Form) -> list[dict[str, Any]] | None:
    """The boxes of an image; None if it has no file of labels. ValueError says what is wrong."""
    places = _places(below, os.path.splitext(name)[0])
    path = next(filter(os.path.isfile, (os.path.join(folder, each) for each in places)), None)
    if path is None:
        return None
    if os.path.getsize(path) > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES:,} bytes")
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file]
    return [
        _read_line(os.path.relpath(path, folder), number, parts, form)
        for number, parts in enumerate(lines, 1)
        if parts
    ]


def _places(below: str, stem: str) -> list[str]:
    """Where the labels of an image may be: beside its folder of images, or beside itself."""
    parts = below.split("/") if below else []
    at = next((n for n in reversed(range(len(parts))) if parts[n].lower() in _IMAGES), None)
    beside = [[*parts[:at], name, *parts[at + 1 :]] for name in _LABELS if at is not None]
    return ["/".join((*each, f"{stem}.txt")) for each in (*beside, parts)]


def _read_line(path: str, number: int, parts: list[str], form: _Form) -> dict[str, Any]:
    """A box; the outline of a segment as the box around it; of a pose, its box."""
    try:
        class_, *numbers = map(float, parts)
        is_box = all(map(math.isfinite, (class_, *numbers))) and class_ % 1 == 0
    except ValueError:
        is_box = False
    if not is_box:
        raise ValueError(f"{path}:{number} has {show(' '.join(parts))}, which is not a box")
    if class_ not in form.classes:
        raise ValueError(f"{path}:{number} is of the class {class_:g}, which has no name")
    if form.keypoints and len(numbers) == 4 + form.keypoints:
        form.seen["keypoints"] += 1
        numbers = numbers[:4]
    if len(numbers) > 5 and len(numbers) % 2 == 0:
        form.seen["outlines"] += 1
        (left, right), (top, bottom) = ((min(x), max(x)) for x in (numbers[::2], numbers[1::2]))
        numbers = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    if len(numbers) not in (4, 5):  # A fifth one is a detector's confidence.
        way = "; if keypoints follow it, data.yaml says so, as by kpt_shape: [17, 3]"
        raise ValueError(
            f"{path}:{number} has {len(numbers)} numbers, where a box has four"
            f"{way * (len(numbers) > 5)}"
        )
    return {"bbox": numbers[:4], "category": form.classes[int(class_)]}


YOLO = SourceKind(name="a folder of YOLO", in_folder=_is_yolo, files=list_whole, rows=read_yolo)
