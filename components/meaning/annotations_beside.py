"""Annotations that lie beside images and that no kind of source reads: none is lost unsaid."""

import itertools
import os
import re
from collections.abc import Iterable

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.counted_folders import TEXTS, Tally, sample_hash
from image_pipeline.components.sources.file_names import ending_of
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.source_kinds import read_rows

WAY_OUT = (
    "export it as COCO, Pascal VOC, YOLO, LabelMe or CreateML, or as a CSV with a row an image or "
    "a box"
)
_MOST_READ = 2**16  # bytes of a text
_LEAST_LETTERS = 4  # of a name without its ending; a shorter one may be any number
_MOST_ROWS = 5  # of a table, to know whether they are images
_MOST_STEMS = 50_000  # that are held in memory
_MARK = re.compile(r"^gt_|_gt$", re.IGNORECASE)  # ICDAR's gt_img_1.txt is of img_1.jpg
_OF_BOXES = {"gt", "bbox", "bbx", "bboxes", "boxes", "box"}  # MOT's gt.txt names no images
_BOX = re.compile(r"\b(?:bbox|bndbox|boxes|regions|polygons?|shape_attributes)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[^\s\"'<>|,;=\\/]+")


def find_partners(tally: Tally, paths: Iterable[str]) -> list[str]:
    """The first texts with names of images, if at least half of the images have one."""
    images = sum(tally.folders().values())
    if not images or 2 * tally.texts() < images:
        return []
    endings = {*TEXTS, ""}
    one_in, first = 1 + images // _MOST_STEMS, list[str]()
    of_images, of_texts = set[str](), set[str]()
    for path in paths:
        name = path.rpartition("/")[2]
        stem, ending = os.path.splitext(name)
        is_text = ending.lower() in endings
        stem = _MARK.sub("", stem) if is_text else stem
        if sample_hash(stem) % one_in == 0:
            (of_texts if is_text else of_images).add(stem)
            if is_text and len(first) < 3:
                first.append(path)
    return first if 2 * len(of_images & of_texts) >= len(of_images) else []


def find_naming(images: str, tally: Tally) -> tuple[list[str], list[str], list[str]]:
    """The files that may say what images show.

    Returns:
      Those that are read if they are given; those that are not; and of these, those of boxes.
    """
    readable, unread, boxes, names = list[str](), list[str](), list[str](), _names_of(tally)
    for path in tally.some_texts:
        name, text = path.rpartition("/")[2].lower(), _read(images, path)
        is_named = name.endswith(".txt") and not _OF_BOXES.isdisjoint(_WORD.findall(name))
        is_cvat = name.endswith(".xml") and "<annotation" in text
        names_images = not names.isdisjoint(_NAME.findall(text))
        if names_images and _is_table(files.join(images, path)):
            readable.append(path)
        elif names_images or is_named or is_cvat or name.endswith(".mat"):
            unread.append(path)
            if is_named or (name.endswith((".xml", ".json")) and _BOX.search(text)):
                boxes.append(path)
    return readable, unread, boxes


def find_tables(images: str, tally: Tally) -> list[str]:
    """Of the tables beside images, those that name them, if only without their endings."""
    names = _names_of(tally)
    names |= {stem for stem, _ in map(os.path.splitext, names) if len(stem) >= _LEAST_LETTERS}
    return [
        path for path in tally.tables if not names.isdisjoint(_NAME.findall(_read(images, path)))
    ]


def _names_of(tally: Tally) -> set[str]:
    return {path.rpartition("/")[2] for path in tally.names()}


def _read(images: str, path: str) -> str:
    """How a file begins; nothing of one in an archive, or that cannot be read."""
    try:
        return files.read_file(files.join(images, path), 0, _MOST_READ).decode(errors="replace")
    except (OSError, UserError):
        return ""


def _is_table(path: str) -> bool:
    """Whether a file is a table whose first rows are images, by their endings."""
    if path.endswith(".xml"):
        return False
    try:
        rows = list(itertools.islice(read_rows(path), _MOST_ROWS))
    except UserError:
        return False
    cells = ([cell for cell in row.cells.values() if isinstance(cell, str)] for row in rows)
    are_named = (any(ending_of(cell) in IMAGE_ENDINGS for cell in each) for each in cells)
    return bool(rows) and not any(row.problem for row in rows) and all(are_named)
