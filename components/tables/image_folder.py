"""Hugging Face's ImageFolder: `metadata.csv`, `.jsonl` or `.parquet` beside images, or a split's.

https://huggingface.co/docs/datasets/image_dataset#imagefolder
"""

import os
from collections.abc import Iterator
from typing import Any

from image_pipeline.components.sources.file_names import split_in_path
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole, read_rows
from image_pipeline.components.sources.understood import understood
from image_pipeline.components.tables.annotated_folders import (
    Look,
    glance,
    read_head,
    say_splits,
    walk,
)

_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_COLUMN = "file_name"


def _find_metadata(folder: str, look: Look = walk) -> list[tuple[str, str]]:
    """The folders that have such a file, below the one that is given, with its name."""
    found = []
    for below, _, names in look(folder, 2):
        own = next((name for name in _NAMES if name in names), None)
        if own is not None and _is_metadata(os.path.join(folder, below, own)):
            found.append((below, own))
    return found


def _is_metadata(path: str) -> bool:
    return path.endswith(".parquet") or b"file_name" in read_head(path)


def read_image_folder(folder: str, columns: Asked) -> Iterator[Row]:
    """Reads each file's rows: an image, its columns, and the split that its folder names."""
    number, splits = 0, []
    for below, name in _find_metadata(folder):
        split = split_in_path(below)
        for row in read_rows(os.path.join(folder, below, name)):
            number += 1
            if row.problem:
                where = f"{below}/{name}" if below else name
                yield Row(number, {}, f"{where}:{row.line}: {row.problem}")
                continue
            cells = _place(row.cells, os.path.join(folder, below))
            own = split or _split_in(row.cells)
            splits.append(own)
            yield Row(number, cells | ({"split": own} if own else {}))
    named = say_splits(splits, "folders name the splits")
    understood(f"ImageFolder: rows of {name} say what the images are{named}")


def _place(cells: dict[str, Any], folder: str) -> dict[str, Any]:
    """The cells with whole paths; `image_file_name` is the column `image`, and so with others."""
    placed: dict[str, Any] = {}
    for column, cell in cells.items():
        if not column.endswith(_COLUMN):
            placed[column] = cell
            continue
        name = column.removesuffix(f"_{_COLUMN}") or column
        is_path = isinstance(cell, str) and cell.strip() != ""
        path = str(cell).strip().replace("\\", "/")
        placed[name] = os.path.abspath(os.path.join(folder, path)) if is_path else cell
    return placed


def _split_in(cells: dict[str, Any]) -> str | None:
    """The split that an image's own folder names, where one file is of all of them."""
    if "split" in map(str.lower, cells):
        return None
    paths = (cell for column, cell in cells.items() if column.endswith(_COLUMN))
    folder, _, _ = str(next(paths, "")).replace("\\", "/").rpartition("/")
    return split_in_path(folder)


IMAGE_FOLDER = SourceKind(
    name="an ImageFolder of Hugging Face",
    in_folder=lambda folder: bool(_find_metadata(folder, glance)),
    files=list_whole,
    rows=read_image_folder,
)
