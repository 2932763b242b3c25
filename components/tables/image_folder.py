"""Hugging Face's ImageFolder: `metadata.csv`, `.jsonl` or `.parquet` beside images, or a split's.

https://huggingface.co/docs/datasets/image_dataset#imagefolder
"""

import os
from collections.abc import Iterator
from typing import Any

from image_pipeline.components.sources.file_names import split_named
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole, read_rows
from image_pipeline.components.sources.understood import understood
from image_pipeline.components.tables.annotated_folders import count_splits, read_head, walk

_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_COLUMN = "file_name"


def _find_metadata(folder: str) -> list[tuple[str, str]]:
    """The folders that have such a file, below the one that is given, with its name."""
    found = []
    for below, _, names in walk(folder, most_deep=2):
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
        split = next((s for part in below.split("/") if (s := split_named(part))), None)
        for row in read_rows(os.path.join(folder, below, name)):
            number += 1
            if row.problem:
                where = f"{below}/{name}" if below else name
                yield Row(number, {}, f"{where}:{row.line}: {row.problem}")
                continue
            cells: dict[str, Any] = dict(row.cells)
            if isinstance(path := cells.get(_COLUMN), str) and path:
                cells[_COLUMN] = os.path.abspath(os.path.join(folder, below, path))
            splits.append(split)
            yield Row(number, cells | ({"split": split} if split else {}))
    told = count_splits(splits)
    named = f"; folders name the splits: {told}" if told else ""
    understood(f"ImageFolder: rows of {name} say what the images are{named}")


IMAGE_FOLDER = SourceKind(
    name="an ImageFolder of Hugging Face",
    in_folder=lambda folder: bool(_find_metadata(folder)),
    files=list_whole,
    rows=read_image_folder,
)
