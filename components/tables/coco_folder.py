"""Folders with COCO files: one a split, as Roboflow and COCO itself have them, or one for all."""

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.box_cells import BOXES
from image_pipeline.components.sources.file_names import split_in_path
from image_pipeline.components.sources.folder import find_cased
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole, read_rows
from image_pipeline.components.sources.understood import understood
from image_pipeline.components.tables.annotated_folders import (
    Look,
    find_files,
    glance,
    read_head,
    say_splits,
    walk,
)
from image_pipeline.components.tables.outlines import COLUMN

_NAMED = re.compile(
    r"[^/]*coco[^/]*\.json|(_?annotations|instances|panoptic)[^/]*\.json", re.IGNORECASE
)
_KEYS = re.compile(rb'"(images|annotations|categories|imgs|anns|cats)"\s*:\s*(\[\s*[{\]]|\{)')
_CHUNK = 2**17  # bytes at a file's beginning and end, by which it is recognised
_LOOKED_FOR = 20  # images of a file, to find the folder that they are in


def _find_files(folder: str, look: Look = walk) -> list[tuple[str, str]]:
    """The COCO files of a folder, or of its folders: where each is, and its name."""
    found = []
    for below, name in find_files(folder, ".json", look, 2):
        path = os.path.join(folder, below, name)
        is_object = read_head(path).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        is_object |= not os.access(path, os.R_OK)  # Whoever reads it says so.
        if is_object and (_NAMED.fullmatch(name) or _has_lists(path)):
            found.append((below, name))
    # A list of a test split's images, beside annotations, has none.
    annotated = [each for each in found if _has_annotations(os.path.join(folder, *each))]
    return _choose(annotated or found)


def _has_annotations(path: str) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(b'"annotations"') >= 0
    except (OSError, ValueError):  # Whoever reads it says so.
        return True


def _has_lists(path: str) -> bool:
    """Whether a file, whatever its name, has several of COCO's lists, as it begins or ends."""
    try:
        with open(path, "rb") as file:
            both = file.read(_CHUNK)
            file.seek(max(_CHUNK, os.path.getsize(path) - _CHUNK))
            both += file.read(_CHUNK)
    except OSError:
        return False
    return len({match[1] for match in _KEYS.finditer(both)}) > 1


def _choose(found: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of boxes, or else of segments, where a folder has others, too, such as captions."""
    for named in ("instances", "person_keypoints", "panoptic"):
        if chosen := [(below, name) for below, name in found if name.lower().startswith(named)]:
            return chosen
    return list(found)


def read_coco_folder(folder: str, columns: Asked) -> Iterator[Row]:
    """Reads each file's rows: an image, its boxes or mask, and the split of its file or folder."""
    yield from read_files("COCO", folder, _find_files(folder), columns)


def read_files(
    form: str, folder: str, found: Sequence[tuple[str, str]], columns: Asked
) -> Iterator[Row]:
    """Reads files of images and their annotations, one a split or one for all.

    Yields:
      The rows, whose `file_name` is the image as it is there, with the split that files or their
      folders name.

    Raises:
      UserError: if several files may be of the same images.
    """
    number, splits, are_masks, are_boxes = 0, [], False, False
    _check_one_each(form, folder, found)
    for below, name in found:
        split = _split_of(below, name)
        rows = list(read_rows(os.path.join(folder, below, name), columns))
        place = _find_images(folder, below, split, rows)
        for row in rows:
            number += 1
            if row.problem:
                yield Row(number, {}, f"{name}:{row.line}: {row.problem}")
                continue
            cells: dict[str, Any] = dict(row.cells)
            if isinstance(path := cells.get("file_name"), str) and path:
                cells["file_name"] = os.path.abspath(os.path.join(place, path.replace("\\", "/")))
            splits.append(split)
            are_boxes |= BOXES in cells
            are_masks |= not cells.keys().isdisjoint(("mask", COLUMN))
            yield Row(number, cells | ({"split": split} if split else {}))
    what = "masks" if are_masks else "boxes" if are_boxes else "classes"
    understood(f"{form} files: {what} of all of them{say_splits(splits)}")


def _split_of(below: str, name: str) -> str | None:
    """The split that a file's name, or else its folders, name."""
    return split_in_path(name.rpartition(".")[0]) or split_in_path(below)


def _check_one_each(form: str, folder: str, found: Sequence[tuple[str, str]]) -> None:
    """Refuses several files in one folder that may be of the same images."""
    places = [(below, _split_of(below, name)) for below, name in found]
    again = [each for each, place in zip(found, places, strict=True) if places.count(place) > 1]
    if again:
        named = ", ".join(os.path.join(*each) for each in again)
        raise UserError(
            f"{folder!r} has several {form} files, which may be of the same images: {named}; "
            "ingest the one that you mean, or move the others elsewhere."
        )


def _find_images(folder: str, below: str, split: str | None, rows: Sequence[Row]) -> str:
    """The folder that a file's images are in, by the first of them."""
    named = [row.cells.get("file_name") for row in rows[:_LOOKED_FOR] if not row.problem]
    paths = [name.replace("\\", "/") for name in named if isinstance(name, str)]
    own = [os.path.join(folder, each) for each, _, _ in walk(folder, most_deep=3)]
    # Of several folders that have files of these names, the split's own, or the file's.
    own.sort(key=lambda each: os.path.normpath(each) != os.path.normpath(f"{folder}/{below}"))
    own.sort(key=lambda each: split is None or _split_of(each[len(folder) :], "") != split)
    best = max(
        own,
        key=lambda place: sum(
            os.path.exists(os.path.join(place, path)) or find_cased(place, path) is not None
            for path in paths
        ),
    )
    return best


COCO_FOLDER = SourceKind(
    name="a folder of COCO files",
    in_folder=lambda folder: bool(_find_files(folder, glance)),
    files=list_whole,
    rows=read_coco_folder,
)
