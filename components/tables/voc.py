"""Pascal VOC: an XML file of boxes an image, in `Annotations/` or beside the images.

Corners are pixels counted from 1, the last ones inside the box
(http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html). `ImageSets/Main` names the
images of each split.
"""

import functools
import math
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.box_cells import BOXES, FORMAT, SIZE, StatedBoxes
from image_pipeline.components.sources.file_names import split_in_path
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.tables.annotated_folders import (
    find_files,
    find_image,
    holds,
    notice_others,
    say_splits,
    walk,
)

_MOST_BYTES = 2**22  # of an XML file
_MARKS = ("difficult", "truncated")  # what is kept of an object beside its box
_IS_MARKED = ("1", "true", "True")
_SPLITS = (("train", "train"), ("val", "val"), ("test", "test"), ("train", "trainval"))
_LISTS = re.compile(r"(^|/)ImageSets(/Main)?$")
_ANNOTATION = re.compile(rb"<annotation[\s>]")  # CVAT's own form begins <annotations>
_ENDING = re.compile(r"\.(jpe?g|png|xml)$", re.IGNORECASE)


def read_voc(folder: str, columns: Asked) -> Iterator[Row]:
    """Reads all XML files below a folder, in the order of their paths.

    Yields:
      A row an image: where it is, its boxes, the marks of each object, and its split. A file
      that cannot be read is a row with a problem.
    """
    splits, seen, taken = _read_splits(folder), [], set[str]()
    left = dict(splits)
    number = renamed = 0
    for number, (below, name) in enumerate(find_files(folder, ".xml"), 1):
        stem = name[:-4]
        taken.add(stem)
        left.pop(stem, None)
        try:
            cells, is_renamed = _read_one(folder, below, name)
        except ValueError as error:
            yield Row(number, {}, f"{posixpath.join(below, name)} {error}")
            continue
        renamed += is_renamed
        taken.add(os.path.splitext(os.path.basename(cells["image"]))[0])
        split = splits.get(stem) or split_in_path(below)
        seen.append(split)
        yield Row(number, cells | ({"split": split} if split else {}))
    for missing, (stem, split) in enumerate(left.items(), number + 1):
        yield Row(missing, {}, f"the list of {split} in ImageSets names {stem!r}: no such XML file")
    if renamed:
        noticed(f"{renamed:,} XML files name an image that is called otherwise than they are")
    unlisted = seen.count(None)
    if unlisted and unlisted < len(seen):
        noticed(
            f"Pascal VOC: {unlisted:,} XML files are in no split; ingest.splits shares them out"
        )
    notice_others("Pascal VOC", folder, taken)
    where = "ImageSets/Main" if splits else "folders"
    named = say_splits(seen, f"{where} name the splits")
    understood(f"Pascal VOC: corners of boxes are counted from 1, the last ones inside{named}")


def _read_splits(folder: str) -> dict[str, str]:
    """The split of each image, by what it is called without its ending."""
    found: dict[str, str] = {}
    again: set[str] = set()
    for below, _, names in walk(folder):
        if _LISTS.search(below) is None:
            continue
        has_parts = "train.txt" in names
        for split, name in _SPLITS:
            if f"{name}.txt" not in names or (name == "trainval" and has_parts):
                continue
            listed = _read_list(os.path.join(folder, below, f"{name}.txt"))
            again |= {each for each in listed if found.get(each, split) != split}
            found = dict.fromkeys(listed, split) | found
    if again:
        noticed(f"ImageSets: {len(again):,} names are in several lists; the first counts")
    return found


def _read_list(path: str) -> list[str]:
    """What a list names, without endings; whatever else a line has is left out."""
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            firsts = [line.split()[0] for line in file if line.strip()]
    except OSError as error:
        raise UserError(f"Cannot read the list {path!r}: {error.strerror}.") from error
    names = (name.replace("\\", "/").rpartition("/")[2] for name in firsts)
    return [_ENDING.sub("", name) for name in names]


def _read_one(folder: str, below: str, name: str) -> tuple[dict[str, Any], bool]:
    """The cells of a file, and whether it names another image; ValueError says what is wrong."""
    path = os.path.join(folder, below, name)
    if os.path.getsize(path) > _MOST_BYTES:
        raise ValueError(f"has more than {_MOST_BYTES:,} bytes")
    root = _parse(path)
    if root.tag != "annotation":
        raise ValueError(f"holds <{root.tag}>, where an <annotation> is expected")
    objects = root.findall("object")
    stated = {SIZE: _read_size(root), BOXES: list(map(_read_object, objects)), FORMAT: "xyxy"}
    marks = {
        mark: [int((each.findtext(mark) or "").strip() in _IS_MARKED) for each in objects]
        for mark in _MARKS
    }
    file_name = (root.findtext("filename") or "").strip()
    image, is_renamed = find_image(folder, below, name[:-4], file_name)
    return {"image": image, "boxes": StatedBoxes(stated)} | marks, is_renamed


def _parse(path: str) -> ElementTree.Element:
    """An XML file without entities of its own, which could be of any size."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    if b"<!ENTITY" in data.replace(b"\0", b""):  # In UTF-16, too.
        raise ValueError("declares entities, which no annotation needs")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise ValueError(f"is not XML ({error})") from error


def _read_size(root: ElementTree.Element) -> list[int]:
    sides = [root.findtext(f"size/{side}", "").strip() for side in ("width", "height")]
    are_sides = all(each.isascii() and each.isdigit() and 0 < int(each) < 2**31 for each in sides)
    return [int(side) for side in sides] if are_sides else []


def _read_object(found: ElementTree.Element) -> dict[str, Any]:
    texts = [found.findtext(f"bndbox/{side}", "") for side in ("xmin", "ymin", "xmax", "ymax")]
    try:
        left, top, right, bottom = map(float, texts)
    except ValueError as error:
        raise ValueError(f"has a box of {texts}, which are not four numbers") from error
    if not all(map(math.isfinite, (left, top, right, bottom))):
        raise ValueError(f"has a box of {texts}, which are not four numbers")
    # Some count from 0 all the same.
    corners = [max(left - 1, min(left, 0.0)), max(top - 1, min(top, 0.0)), right, bottom]
    return {"bbox": corners, "category": (found.findtext("name") or "").strip()}


VOC = SourceKind(
    name="a folder of Pascal VOC",
    in_folder=functools.partial(holds, ending=".xml", begins=_ANNOTATION),
    files=list_whole,
    rows=read_voc,
)
