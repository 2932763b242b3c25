"""What the formats of annotations in folders have in common: how files are found, and said."""

import functools
import os
from collections.abc import Iterable, Iterator

from image_pipeline.components.sources.reading import IMAGE_ENDINGS

_MOST_DEEP = 4  # folders below the one that is given
_MOST_LOOKED_AT = 2000  # files, to tell what a folder is


def walk(folder: str, most_deep: int = _MOST_DEEP) -> Iterator[tuple[str, list[str], list[str]]]:
    """The folders below one, itself first, each with its subfolders and files by name.

    Names that begin with a dot are left out; links to folders are not followed.
    """
    yield from _walk(folder, "", most_deep)


def _walk(root: str, below: str, left: int) -> Iterator[tuple[str, list[str], list[str]]]:
    try:
        with os.scandir(os.path.join(root, below)) as entries:
            found = sorted((each.name, each.is_dir(follow_symlinks=False)) for each in entries)
    except OSError:
        return
    folders = [name for name, is_folder in found if is_folder and name[0] != "."]
    yield below, folders, [name for name, is_folder in found if not is_folder and name[0] != "."]
    for name in folders if left else ():
        yield from _walk(root, f"{below}/{name}" if below else name, left - 1)


def find_first(folder: str, endings: tuple[str, ...], most_deep: int = _MOST_DEEP) -> str | None:
    """The path of the first file below a folder that ends so; None if it is not among the first."""
    looked_at = 0
    for below, _, names in walk(folder, most_deep):
        for name in names:
            if name.lower().endswith(endings):
                return os.path.join(folder, below, name)
        looked_at += len(names)
        if looked_at > _MOST_LOOKED_AT:
            return None
    return None


def images_by_stem(folder: str) -> dict[str, str]:
    """The names of the images in a folder, by what they are called without their endings."""
    try:
        return _list_images(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return {}


@functools.lru_cache(maxsize=64)
def _list_images(folder: str, modified_ns: int) -> dict[str, str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries)
    except OSError:
        return {}
    found = (os.path.splitext(name) for name in names)
    return {stem: stem + ending for stem, ending in found if ending.lower() in IMAGE_ENDINGS}


def read_head(path: str, most_bytes: int = 2**12) -> bytes:
    """How a file begins; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes)
    except OSError:
        return b""


def count_splits(splits: Iterable[str | None]) -> str:
    """How many images each split has, in words; "" if none is named."""
    counts: dict[str, int] = {}
    for split in splits:
        if split:
            counts[split] = counts.get(split, 0) + 1
    return ", ".join(f"{split} {count:,}" for split, count in sorted(counts.items()))
