"""Images that are cells of Parquet and Arrow files: their column is read, a block at a time."""

import collections
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.sources.references import ImageRef

BYTES = "bytes"
"""The field of a structure that has an image's bytes."""

_BLOCK_BYTES = 8 * 2**20
_BUFFER_BYTES = 2**20
_MOST_ROWS = 1024  # of a block
_BLOCKS = 3  # that are held of a file: threads read rows that lie near each other


def read_parquet_cell(ref: ImageRef, wanted: int) -> bytes:
    """Reads a Parquet file's cell; see `source_kinds.Reader`. All of it: the size was a guess."""
    assert ref.location is not None
    location = ref.location
    try:
        column = _open_column(location.file, location.inside, ref.modified_ns)
    except pa.ArrowException as error:  # It was another file when it was listed.
        raise _bad_part(location.file, error) from error
    try:
        return _to_bytes(column.read(location.start), location.file)
    except (pa.ArrowException, OSError, IndexError) as error:
        raise _bad_part(location.file, error) from error


def read_arrow_cell(ref: ImageRef, wanted: int) -> bytes:
    """Reads a cell of an Arrow file; see `source_kinds.Reader`."""
    assert ref.location is not None
    try:
        table = open_arrow(ref.location.file)
        name, below = split_column(ref.location.inside, table.schema)
        cell = table[name][ref.location.start]
    except (pa.ArrowException, LookupError) as error:  # It was another file when it was listed.
        raise _bad_part(ref.location.file, error) from error
    return _to_bytes(cell[below] if below else cell, ref.location.file)[:wanted]


def _bad_part(path: str, error: Exception) -> BadImage:
    return BadImage(CORRUPT, f"its part of {path!r} cannot be read ({error})")


def split_column(inside: str, schema: pa.Schema) -> tuple[str, str]:
    """A column and the field in it that has the bytes, "" for none: names may have dots."""
    if inside in schema.names:
        return inside, ""
    name, _, below = inside.rpartition(".")
    return name, below


def open_parquet(
    file: BinaryIO, is_checked: bool = True, metadata: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """A Parquet file of which little is held: a row group may be as large as the file.

    Args:
      file: the file.
      is_checked: whether reading raises OSError where a page has a checksum, and another one.
      metadata: what ends the file, if it was read before.
    """
    return pq.ParquetFile(
        file,
        metadata=metadata,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
        page_checksum_verification=is_checked,
    )


def read_chunk_header(parquet: pq.ParquetFile, group: int, name: str) -> pq.ColumnChunkMetaData:
    """What a Parquet file says of a column of a row group that has rows.

    Raises:
      OSError: if that, or the first page, is damaged.
      pa.ArrowInvalid: if the group has no such column.
    """
    # pyarrow ends the process where sizes lie, unless it finds that as it begins to read.
    next(parquet.iter_batches(1, row_groups=[group], columns=[name]), None)
    found = parquet.metadata.row_group(group)
    names = [parquet.schema.column(at).path for at in range(len(parquet.schema))]
    if name not in names[: found.num_columns]:
        raise pa.ArrowInvalid(f"a group of rows has no column {name!r}")
    return found.column(names.index(name))


def open_arrow(path: str) -> pa.Table:
    """An Arrow file on this machine, mapped into memory; a process's threads share it.

    Raises:
      UserError: if there are bytes after its end.
      pa.ArrowInvalid: if it is damaged.
    """
    return _open_arrow(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _open_arrow(path: str, modified_ns: int) -> pa.Table:
    """`modified_ns` is for the cache only."""
    source = pa.memory_map(path)
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source).read_all()
    # Eight zeros end a stream: those of damage, too, and all rows behind them would be lost.
    if not is_file and source.tell() < source.size():
        raise UserError(
            f"The table {path!r} cannot be read: it ends at byte {source.tell():,} of "
            f"{source.size():,}, so it is damaged, or several were joined; make it again."
        )
    # Arrow trusts offsets, and one that is wrong ends the process; images are not looked at.
    table.validate(full=True)
    return table


def _to_bytes(cell: pa.Scalar, path: str) -> bytes:
    data = cell.as_py()
    if data is None:
        raise BadImage(CORRUPT, f"{path!r} is now empty in its row")
    return data


class _Column:
    """A column of a Parquet file, of which the last blocks that were read are held."""

    def __init__(self, path: str, name: str, modified_ns: int):
        """Opens the file; `modified_ns` is for the cache only."""
        self._file = open_parquet(files.open_input(path))
        self._name, self._lock = name, threading.Lock()
        self._blocks: collections.OrderedDict[tuple[int, int], Any] = collections.OrderedDict()
        self._sizes: dict[int, int] = {}
        self._group, self._next = -1, 0
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def read(self, row: int) -> pa.Scalar:
        """The cell of a row, counted from 0 in the file."""
        group = 0
        while row >= (rows := self._file.metadata.row_group(group).num_rows):
            row, group = row - rows, group + 1
        with self._lock:
            size = self._rows_of_block(group)
            return self._read_block(group, row // size, size)[row % size]

    def _rows_of_block(self, group: int) -> int:
        if group not in self._sizes:
            size = read_chunk_header(self._file, group, self._name).total_uncompressed_size
            rows = self._file.metadata.row_group(group).num_rows
            self._sizes[group] = min(_MOST_ROWS, max(1, _BLOCK_BYTES * rows // max(1, size)))
        return self._sizes[group]

    def _read_block(self, group: int, number: int, size: int) -> Any:
        """Goes on to the block, or starts the row group again where it is behind."""
        if (group, number) in self._blocks:
            return self._blocks[group, number]
        if group != self._group or number < self._next:
            self._batches = self._file.iter_batches(
                size, row_groups=[group], columns=[self._name], use_threads=False
            )
            self._group, self._next = group, 0
        while self._next <= number:
            batch = next(self._batches, None)
            if batch is None:
                raise OSError("it ends before its last row")
            column = batch.column(0)
            block = column.field(0) if pa.types.is_struct(column.type) else column
            self._blocks[group, self._next] = block
            self._next += 1
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        return self._blocks[group, number]


_open_column = functools.lru_cache(maxsize=4)(_Column)
