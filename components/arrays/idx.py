"""IDX files, as MNIST and its like have them: images and labels, of each split a pair of files.

http://yann.lecun.com/exdb/mnist/ says what their bytes are.
"""

import functools
import gzip
import itertools
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from image_pipeline.components.images import npy
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Location, Row, TableError
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, list_whole
from image_pipeline.components.sources.understood import understood

_NAMED = re.compile(r"(?P<set>.*?)[-_.]?images[-_.]idx3[-_.]ubyte(?P<gz>\.gz)?", re.IGNORECASE)
_SPLITS = {"t10k": "test", "test": "test", "train": "train"}
_SPLIT_WORD = re.compile("t10k|test|train", re.IGNORECASE)
_MOST_LOOKED_AT = 64  # files of a folder
_MOST_BYTES = 2**32
_MAPPING = re.compile(r"(^|[-_.])mapping\.txt$", re.IGNORECASE)
_MOST_MAPPED = 2**20  # bytes of such a file


def _is_idx(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:  # There are few files beside such ones.
            first = [entry.name for entry in itertools.islice(entries, _MOST_LOOKED_AT)]
    except OSError:
        return False
    return any(map(_NAMED.fullmatch, first))


def _find_pairs(folder: str) -> list[tuple[str, str, str | None]]:
    """The files of images, of their labels, and the split that their names name."""
    names = set(os.listdir(folder))
    pairs = []
    for name in sorted(names):
        found = _NAMED.fullmatch(name)
        if found is None or (found["gz"] and name.removesuffix(".gz") in names):
            continue  # What is there unpacked, too, is read so.
        plain = name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
        labels = next((each for each in (plain, f"{plain}.gz") if each in names), "")
        split = next((own for word, own in _SPLITS.items() if word in found["set"].lower()), None)
        pairs.append((name, labels, split))
    return sorted(pairs, key=lambda pair: (pair[2] != "train", pair[0]))


def read_pairs(folder: str, columns: Asked) -> Iterator[Row]:
    """A row an image, with its label and its split; raises TableError if a file is damaged."""
    pairs = _find_pairs(folder)
    _check_one_set(folder, [images for images, _, _ in pairs])
    names, described_names = _read_names(folder)
    number = 0
    counts: dict[str, int] = {}
    for images, labels, split in pairs:
        path = os.path.join(folder, images)
        count, height, width = _read_shape(path, 3)
        codes = _read_labels(os.path.join(folder, labels), count, labels) if labels else None
        modified_ns = os.stat(path).st_mtime_ns
        for at in range(count):
            number += 1
            location = Location(path, _KIND, at)
            size_bytes = len(npy.make_file(np.zeros((height, width), np.uint8)))
            cells: dict[str, Any] = {"image": EmbeddedImage(location, size_bytes, modified_ns)}
            cells["path"] = f"{images.partition('.')[0]}/{at:05d}"
            if codes is not None:
                label = int(codes[at])
                cells["label"] = names.get(label, str(label))
            yield Row(number, cells | ({"split": split} if split else {}))
        counts[split or images] = count
    counted = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    understood(f"IDX files: images with labels, {counted}{described_names}")


def _read_names(folder: str) -> tuple[dict[int, str], str]:
    """The characters that labels stand for, as EMNIST's `…-mapping.txt` lists their codes.

    Returns:
      By labels, the first character of each; and that they are taken, as the end of a sentence.
    """
    name = next((each for each in sorted(os.listdir(folder)) if _MAPPING.search(each)), "")
    if not name:
        return {}, ""
    with open(os.path.join(folder, name), encoding="utf-8-sig", errors="replace") as file:
        lines = [line.split() for line in file.read(_MOST_MAPPED).splitlines() if line.strip()]
    if not all(len(line) > 1 and all(map(str.isdecimal, line)) for line in lines):
        return {}, f"; {name} is not read, for it has other lines than a label and its codes"
    names = {int(label): chr(int(code)) for label, code, *_ in lines if 32 < int(code) < 0xD800}
    shown = ", ".join(f"{label} is {names[label]!r}" for label in sorted(names)[-2:])
    return names, f"; {name} names the labels: {shown}, …"


def _check_one_set(folder: str, names: Sequence[str]) -> None:
    """Refuses files of several sets, as EMNIST's are, whose labels mean different things."""
    sets = {_SPLIT_WORD.sub("", _NAMED.sub(r"\g<set>", name)).strip("-_.") for name in names}
    if len(sets) > 1:
        raise TableError(
            1,
            f"the IDX files are of several sets, {', '.join(sorted(sets))}; move those of the one "
            "that is meant to a folder of their own.",
        )


_KIND = "idx"


def _read_shape(path: str, sides: int) -> tuple[int, ...]:
    data, name = _read(path), os.path.basename(path)
    if len(data) < 4 + 4 * sides or data[:3] != b"\0\0\x08" or data[3] != sides:
        raise TableError(1, f"{name} is not an IDX file of bytes with {sides} dimensions.")
    shape = struct.unpack_from(f">{sides}I", data, 4)
    if len(data) != 4 + 4 * sides + int(np.prod(shape, dtype=np.int64)):
        raise TableError(1, f"{name} has {len(data):,} bytes, but its dimensions say otherwise.")
    return shape


def _read_labels(path: str, count: int, name: str) -> np.ndarray:
    (found,) = _read_shape(path, 1)
    if found != count:
        raise TableError(1, f"{name} has {found:,} labels, but there are {count:,} images.")
    return np.frombuffer(_read(path), np.uint8, count, 8)


def _read(path: str) -> bytes:
    try:
        return _unpack(path, os.stat(path).st_mtime_ns)
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(1, f"{os.path.basename(path)} cannot be read ({error}).") from error


@functools.lru_cache(maxsize=4)
def _unpack(path: str, modified_ns: int) -> bytes:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        return file.read(_MOST_BYTES)


def read_image(ref: ImageRef, most_bytes: int) -> bytes:
    """An image as the bytes of an `.npy` file."""
    assert ref.location is not None
    try:
        _, height, width = _read_shape(ref.location.file, 3)
    except TableError as error:
        raise BadImage("corrupt", error.problem) from error
    start = 16 + ref.location.start * height * width
    pixels = np.frombuffer(_read(ref.location.file), np.uint8, height * width, start)
    return npy.make_file(pixels.reshape(height, width))[:most_bytes]


IDX = SourceKind(
    name="a folder of IDX files",
    in_folder=_is_idx,
    files=list_whole,
    rows=read_pairs,
    locations={_KIND: read_image},
)
