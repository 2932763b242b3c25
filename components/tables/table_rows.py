"""The rows of a table file, one after another in bounded memory: lists, CSV, TSV, JSON, Parquet."""

import codecs
import collections
import csv
import functools
import importlib
import io
import json
import os
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import once, parse_json
from image_pipeline.components.sources.rows import MOST_COLUMNS, Row
from image_pipeline.components.sources.skipping import IMAGE_ENDINGS
from image_pipeline.components.tables.coco import CocoError, read_coco

TFRECORD = "tfrecord:"
"""Stands before paths of TFRecords, whose names have no ending: `train-00000-of-00010`."""
_NONE: Mapping[str, str | None] = types.MappingProxyType({})
_BUFFER_BYTES = 2**16
_ZARR_ZIP = ".zarr.zip"
_ARRAY_ENDINGS = (".h5", ".hdf5", ".npy", ".npz", ".zarr", _ZARR_ZIP)
# Of TFRecords, `x.tfrecord.gz`, `x.tfrecord-00000-of-00010` and patterns; of tar files `x.tar.gz`.
_NUMBER = r"[\d*?\[\]{},.]+"
_OTHER_ENDINGS = re.compile(
    rf"[._-](?P<tfrecord>tfrec(?:ords?)?)(?:\.gz|\.zlib)?(?:-{_NUMBER}(?:-of-{_NUMBER})?)?(?:\.gz)?$"
    r"|\.(?:tar\.gz|tgz)$"
)
FOLDER_ENDINGS = (".zarr",)
"""Of tables that may be folders."""


_MOST_CHARACTERS = 2**25
"""Of a cell in quotes, and of a line: what is held where quotes or line ends are missing."""
csv.field_size_limit(_MOST_CHARACTERS)


class TableError(ValueError):
    """Where a file cannot be read any further: its line, and why."""

    def __init__(self, line: int, problem: str):
        """Keeps both."""
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


def read_rows(path: str, columns: Mapping[str, str | None] = _NONE) -> Iterator[Row]:
    """Reads a table.

    Args:
      path: of the file, or its URI; its ending says what it is, see `TABLE_ENDINGS`.
      columns: those that are asked for, by what they are; a file of arrays may have several tables.

    Yields:
      The rows in their order; blank lines are none.

    Raises:
      UserError: if there is no such file, or it cannot be read on; it names the line.
    """
    ending, path = ending_of(path), path.removeprefix(TFRECORD)
    is_folder = ending in FOLDER_ENDINGS and os.path.isdir(path)
    if files.is_local(path) and os.path.exists(path) and not (os.path.isfile(path) or is_folder):
        raise UserError(f"The table {path!r} is no regular file; check --images.")
    try:
        if ending in _ARRAY_ENDINGS:
            from image_pipeline.components.arrays.array_tables import read_array_rows

            yield from read_array_rows(path, columns)
            return
        if ending in _READERS_OF_PATHS:
            yield from _find_reader(_READERS_OF_PATHS[ending])(path)
            return
        with files.open_input(path) as file:
            yield from _READERS[ending](file)
    except TableError as error:
        raise UserError(f"{path}:{error.line}: {error.problem}") from error
    except FileNotFoundError as error:
        raise UserError(f"The table {path!r} does not exist; check --images.") from error
    except (pa.ArrowException, OSError, UnicodeError) as error:
        why = " ".join(str(error).split())  # Arrow says it in several lines.
        raise UserError(f"The table {path!r} cannot be read: {why}") from error


@functools.cache
def _find_reader(name: str) -> Callable[[str], Iterator[Row]]:
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"image_pipeline.components.{module}"), function)


def ending_of(path: str) -> str:
    """A path's ending, such as ".csv"."""
    if path.startswith(TFRECORD):
        return ".tfrecord"
    path = path.rstrip("/").lower()
    if usual := _OTHER_ENDINGS.search(path):
        return ".tfrecord" if usual["tfrecord"] else ".tar"
    return _ZARR_ZIP if path.endswith(_ZARR_ZIP) else os.path.splitext(path)[1]


class _Lines(io.RawIOBase):
    """A file's bytes, which end in a `TableError` where a line has too many."""

    def __init__(self, file: BinaryIO):
        """Begins where the file stands."""
        self._file, self._line_bytes, self._lines = file, 0, 0

    def readable(self) -> bool:
        """See `io.RawIOBase`; so do the others."""
        return True

    def seekable(self) -> bool:
        """It can be read again."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """To the beginning of a line."""
        self._line_bytes = self._lines = 0
        return self._file.seek(offset, whence)

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """Reads some bytes."""
        data = self._file.read(len(buffer))
        ended = max(data.rfind(b"\n"), data.rfind(b"\r"))
        self._line_bytes = len(data) - ended + (self._line_bytes if ended < 0 else 0)
        if self._line_bytes > _MOST_CHARACTERS:
            most = f"{_MOST_CHARACTERS:,} bytes"
            raise TableError(self._lines + 1, f"a line may have {most}, this has more; shorten it.")
        self._lines += data.count(b"\n")
        buffer[: len(data)] = data
        return len(data)


def _lines(file: BinaryIO) -> io.TextIOWrapper:
    """Lines of bounded length, see `_text`."""
    return _text(io.BufferedReader(_Lines(file), _BUFFER_BYTES))  # type: ignore[type-var,arg-type]


def _text(file: BinaryIO) -> io.TextIOWrapper:
    """Text with the line ends that it has; bytes that are not UTF-8 as `os.fsdecode` gives them."""
    # A mark at the beginning says UTF-16, which Excel's "Unicode text" is.
    start = file.read(2)
    file.seek(0)
    is_wide = start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    if is_wide:
        return io.TextIOWrapper(file, "utf-16", newline="")
    return io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")


def _read_list(file: BinaryIO) -> Iterator[Row]:
    """`path label`, with white space between; the label is what follows the last of it."""
    for line, text in enumerate(_lines(file), 1):
        path, label = (*text.rsplit(None, 1), "", "")[:2]
        if ending_of(label) in IMAGE_ENDINGS:  # The path has a space, and there is no label.
            path, label = text, ""
        if path:
            yield Row(line, {"path": path.strip()} | ({"label": label} if label else {}))


def _read_separated(file: BinaryIO, delimiter: str | None = None) -> Iterator[Row]:
    """A line of names, and then rows; the delimiter is the one that the names have most of."""
    lines = _lines(file)
    names_line = lines.readline()
    lines.seek(0)
    delimiter = delimiter or max(",;\t|", key=names_line.count)
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    header: list[str] = []
    line, is_done = 1, False
    while not is_done:
        try:
            header = header or _check_header([name.strip() for name in next(reader, [])])
            line = reader.line_num + 1
            for cells in reader:
                if len(cells) == len(header):
                    yield Row(line, {name: cells[at] for at, name in enumerate(header) if name})
                elif cells:
                    counted = f"the first line names {len(header)} columns, but it has {len(cells)}"
                    yield Row(line, {}, counted)
                line = reader.line_num + 1
            is_done = True
        except csv.Error as error:
            # Where the row ends is known if the error is on its only line.
            if not header or reader.line_num > line or "end of data" in str(error):
                problem = f"no row of a table ({error}); correct its quotes."
                raise TableError(line, problem) from error
            yield Row(line, {}, f"it is no row ({error}); correct its quotes")


def _check_header(names: list[str]) -> list[str]:
    """The names; those of no name, such as a data frame's index has, are left out later."""
    if len(names) > MOST_COLUMNS:
        problem = f"the first line names {len(names):,} columns; a table may have {MOST_COLUMNS:,}"
        raise TableError(1, f"{problem}: leave out those that are not used.")
    if not any(names):
        raise TableError(1, "the first line must name the columns, and is empty.")
    if path := next((name for name in names if ending_of(name) in IMAGE_ENDINGS), None):
        problem = f"the first line must name the columns, got {path!r}; add one such as path,label."
        raise TableError(1, problem)
    counts = collections.Counter(filter(None, names))
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise TableError(1, f"two columns are called {repeated[0]!r}; rename one.")
    return names


def _read_json_lines(file: BinaryIO) -> Iterator[Row]:
    """An object a line."""
    for line, text in enumerate(_lines(file), 1):
        if not text.strip():
            continue
        try:
            found = parse_json(text)
            if "\\u" in text or not text.isascii():
                json.dumps(found, ensure_ascii=False).encode()  # Half a surrogate pair is no text.
        except UnicodeEncodeError:
            yield Row(line, {}, "it is no JSON object (it has what is no text in UTF-8)")
            continue
        except (ValueError, RecursionError) as error:
            yield Row(line, {}, f"it is no JSON object ({error})")
            continue
        if not isinstance(found, dict):
            yield Row(line, {}, "it is no JSON object")
        elif len(found) > MOST_COLUMNS:
            yield Row(line, {}, f"it has {len(found):,} keys; a row may have {MOST_COLUMNS:,}")
        else:
            yield Row(line, found)


def _read_json(file: BinaryIO) -> Iterator[Row]:
    """A COCO file's images, or a list of objects; `line` is an object's number. Held in memory."""
    text = _text(file).read()
    try:
        found = parse_json(text, _without_outlines)
    except ValueError as error:
        raise TableError(getattr(error, "lineno", 1), f"it is no JSON ({error}).") from error
    if isinstance(found, dict):
        rows = _read_coco(found)
    elif isinstance(found, list):
        rows = found
    else:
        raise TableError(1, "it must be a COCO file or a list of objects, a row each.")
    has_halves = "\\ud" in text.lower()
    for number, cells in enumerate(rows, 1):
        if isinstance(cells, dict) and not (has_halves and _has_half(cells)):
            yield Row(number, cells)
        else:
            yield Row(number, {}, "it is no JSON object")


def _has_half(cells: dict[str, Any]) -> bool:
    """Whether any text has half a surrogate pair, which is none."""
    try:
        os.fsencode(json.dumps(cells, ensure_ascii=False))
    except UnicodeEncodeError:
        return True
    return False


def _read_coco(content: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return read_coco(content)
    except CocoError as error:
        raise TableError(1, str(error)) from error


def _without_outlines(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Leaves out what is most of a COCO file, and not used."""
    read = dict(pairs)
    if len(read) < len(pairs):
        once(pairs)  # Says which key is there twice; asked for here, it would take its time always.
    read.pop("segmentation", None)
    read.pop("keypoints", None)
    return read


_READERS: dict[str, Callable[[BinaryIO], Iterator[Row]]] = {
    **dict.fromkeys((".txt", ".lst", ".list"), _read_list),
    ".csv": _read_separated,
    **dict.fromkeys((".tsv", ".tab"), lambda file: _read_separated(file, "\t")),
    **dict.fromkeys((".jsonl", ".ndjson"), _read_json_lines),
    ".json": _read_json,
}
# The function that reads a file by its path, by its room and module.
_READERS_OF_PATHS = {
    **dict.fromkeys((".parquet", ".pq"), "record_files.columnar_rows.read_parquet"),
    **dict.fromkeys((".arrow", ".feather"), "record_files.columnar_rows.read_arrow"),
    ".tfrecord": "record_files.tfrecord_rows.read_examples",
    ".tar": "archives.web_dataset.read_samples",
}
TABLE_ENDINGS = (*_READERS, *_READERS_OF_PATHS, *_ARRAY_ENDINGS)
