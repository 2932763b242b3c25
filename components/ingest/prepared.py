"""Prepared images in the working folder: a row for every source, and what is stored of it.

All that follows (duplicates, splits, order, shards) is computed from the rows and only copies
payloads, so a source that vanishes or changes later does no harm, and the balance of shards is
exact.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import MASK_FIELDS
from image_pipeline.components.dataset.paths import SOURCES
from image_pipeline.components.dataset.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    CorruptRecord,
    unframe,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.plan import order_keys
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.threads import REMOTE_THREADS, map_in_order

# Spans of a remote file that are closer than this are read in one request: at 100 MB/s the gap
# takes less time than Python's part of another request, 1.5 ms.
_GAP_BYTES = 128 * 2**10
_SPAN_BYTES = 2**20  # Each thread holds one of these.
_BLOCK_BYTES = 8 * 2**20  # Images that are sorted before they are written to a store: about 300.

Result = tuple[dict, bytes]  # a source's row, and its prepared image: b"" if it is quarantined
Span = tuple[str, int, int]  # chunk, first byte, end

ROW_SCHEMA = pa.schema(
    [
        ("path", pa.large_binary()),  # relative to the images folder, the file system's own bytes
        ("record_id", pa.binary(16)),
        ("sha256", pa.binary(32)),  # of the source's bytes; null if they could not be read
        ("reason", pa.string()),  # why it is quarantined or skipped; null if it was prepared
        ("is_skipped", pa.bool_()),  # null if it is not: it is prepared, or quarantined
        ("message", pa.large_string()),
        ("source_bytes", pa.int64()),
        ("label", pa.string()),
        ("group", pa.string()),
        ("forced_split", pa.string()),
        ("further", pa.large_string()),  # a table's further columns as JSON; null without any
        ("chunk", pa.string()),
        ("payload_offset", pa.int64()),
        ("payload_length", pa.int64()),
        ("payload_crc32c", pa.uint32()),  # from before it was written
        ("format", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("channels", pa.int32()),
        ("source_format", pa.string()),
        ("source_height", pa.int32()),
        ("source_width", pa.int32()),
        ("orientation", pa.int32()),
        ("notes", pa.list_(pa.string())),
        ("image_notes", pa.list_(pa.string())),  # those that are not of its mask or its boxes
        ("key", pa.binary(16)),  # see `earlier.name_source`; null if it is not usable
        ("content_key", pa.binary(16)),  # see `earlier.name_content`
        ("annotations", pa.binary(16)),  # see `earlier.name_annotations`; null without any
        # Of the earlier record that the payload is in, whose data begins at `payload_offset`:
        ("record_length", pa.int64()),  # of its data
        ("is_kept", pa.bool_()),  # whether it is this one; null if it is not, or there is none
        ("perceptual_hash", pa.uint64()),  # of the stored image; null unless near_duplicates is set
        ("mask_sha256", pa.binary(32)),  # of the stored mask; the payload begins with it
        *MASK_FIELDS,
    ]
)


class Place(NamedTuple):
    """Where a payload is and what it must be: columns of its row, see `ROW_SCHEMA`."""

    chunk: str
    payload_offset: int
    payload_length: int
    payload_crc32c: int
    record_length: int | None = None
    mask_length: int | None = None
    is_kept: bool | None = None

    @property
    def span(self) -> tuple[int, int]:
        """The first byte of what is read, and the end: of a record that is kept, with its frame."""
        start = self.payload_offset
        if self.record_length is None:
            return start, start + self.payload_length
        if not self.is_kept:
            return start, start + self.record_length
        return start - HEADER_BYTES, start + self.record_length + FOOTER_BYTES


def write_rows(
    results: Iterable[Result],
    name: str,
    work: WorkFolder,
    seed: int,
    known: tuple[np.ndarray, pa.Table] | None = None,
) -> pa.Table:
    """Writes the two files of a chunk: the payloads as they come, then the rows.

    To a store payloads go in blocks, each in the shuffled order: a shard's images in a block are
    then adjacent, and are read in one request instead of one each. Each has a checksum from before
    it is written, since a record gets its own only when it is made of what was read: damage in
    between would go on unseen, into a data set that verifies.

    Args:
      results: what was prepared, in the order of the sources.
      name: of the files, see `WorkFolder.rows_path`.
      work: the working folder.
      seed: of the shuffled order.
      known: the numbers of further sources, int64 [n], counted among all, and their rows.

    Returns:
      The rows, in the order of the sources.
    """
    rows: list[dict] = []
    offset, is_local = 0, work.is_local
    with files.write_atomically(work.payload_path(name)) as file:
        for block in _make_blocks(results, 1 if is_local else _BLOCK_BYTES):
            rows += [row for row, _ in block]
            if not is_local:
                ids = b"".join(row.get("record_id") or bytes(16) for row, _ in block)
                halves = np.frombuffer(ids, ">u8").reshape(-1, 2).astype(np.uint64)
                order = np.argsort(order_keys(halves, seed), kind="stable")
                block = [block[number] for number in order]
            for row, payload in block:
                if "chunk" in row:  # Its payload is in an earlier data set.
                    continue
                row |= {"chunk": name, "payload_offset": offset, "payload_length": len(payload)}
                row["payload_crc32c"] = google_crc32c.value(payload)
                offset += len(payload)
            file.write(b"".join(payload for _, payload in block))
    table = pa.Table.from_pylist(rows, ROW_SCHEMA)
    if known is not None:
        numbers, of_known = known
        others = np.delete(np.arange(len(numbers) + len(table)), numbers)
        order = np.argsort(np.concatenate([numbers, others]))
        table = pa.concat_tables([of_known, table]).combine_chunks().take(pa.array(order))
    write_table(table, work.rows_path(name))
    return table


def _make_blocks(results: Iterable[Result], block_bytes: int) -> Iterator[list[Result]]:
    """Groups results until their payloads reach this many bytes."""
    block: list[Result] = []
    size_bytes = 0
    for result in results:
        block.append(result)
        size_bytes += len(result[1])
        if size_bytes >= block_bytes:
            yield block
            block, size_bytes = [], 0
    yield block


def write_table(rows: pa.Table, path: str) -> None:
    """Writes rows as a file of a chunk."""
    with (
        files.write_atomically(path) as file,
        pa.ipc.new_file(file, ROW_SCHEMA) as writer,
    ):
        writer.write_table(rows)


def count_unusable(rows: pa.Table) -> tuple[int, int]:
    """How many rows are quarantined sources, and how many are skipped ones."""
    skipped = len(rows) - rows["is_skipped"].null_count
    return len(rows) - rows["reason"].null_count - skipped, skipped


def read_rows(path: str) -> pa.Table:
    """Reads a chunk's rows, or a shard's part of the index; local files are mapped, not copied."""
    if files.is_local(path):
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    return pa.ipc.open_file(pa.BufferReader(files.read_file(path))).read_all()


def read_chunk_rows(chunk: PreparedChunk, work: WorkFolder) -> pa.Table:
    """Reads the rows of a chunk that is done; as `read_rows`."""
    return pa.concat_tables(read_rows(work.rows_path(name)) for name in chunk.names)


@contextlib.contextmanager
def open_payloads(rows: pa.Table, work: WorkFolder) -> Iterator["PayloadReader | CopiedPayloads"]:
    """Gives access to the payloads of some rows.

    From a remote working folder, threads first copy them to a temporary file: read one by one, each
    would wait for the store.

    Args:
      rows: with the columns that `Place` has.
      work: the working folder.
    """
    with contextlib.ExitStack() as stack:
        if work.is_local and files.is_local(work.earlier):
            yield stack.enter_context(contextlib.closing(PayloadReader(work)))
        else:
            copy = stack.enter_context(tempfile.TemporaryFile())
            yield CopiedPayloads(rows, work, copy)


class Payloads:
    """Reads payloads, and the records of an earlier data set that have them."""

    _work: WorkFolder

    def _get(self, chunk: str, start: int, end: int) -> bytes:
        raise NotImplementedError

    def read(self, place: Place) -> bytes:
        """Reads a payload, or the record that is kept, as it is framed; verifies all checksums.

        Raises:
          UserError: if it is not what was written.
        """
        data = read = self._get(place.chunk, *place.span)
        try:
            if place.is_kept:
                data = unframe(data)
            if place.record_length is not None and place.mask_length:
                values = record.read_features(data, [record.MASK_COLUMN, record.IMAGE_COLUMN])
                data = values[record.MASK] + values[record.IMAGE]
            elif place.record_length is not None:
                data = data[-place.payload_length :]  # The image ends the record.
            if (
                len(data) != place.payload_length
                or google_crc32c.value(data) != place.payload_crc32c
            ):
                raise ValueError("another payload")
        except (CorruptRecord, ValueError) as error:
            path = self._work.payload_path(place.chunk)
            raise _damaged(path, "has changed since it was written") from error
        return read if place.is_kept else data


class CopiedPayloads(Payloads):
    """Payloads copied to a local file."""

    def __init__(self, rows: pa.Table, work: WorkFolder, copy: BinaryIO):
        """Copies the payloads of the rows."""
        self._work, self._copy = work, copy
        self._offsets: dict[tuple[str, int], int] = {}
        spans = join_spans(rows)

        def fetch(span: list[Span]) -> bytes:
            path, start, end = work.payload_path(span[0][0]), span[0][1], span[-1][2]
            with _explained(path):
                return files.read_file(path, start, end)

        fetched = map_in_order(fetch, spans, REMOTE_THREADS, ahead=1)
        for span, content in zip(spans, fetched, strict=True):
            first = span[0][1]
            for chunk, start, end in span:  # The gaps between them are not kept.
                self._offsets[chunk, start] = copy.tell()
                copy.write(content[start - first : end - first])

    def _get(self, chunk: str, start: int, end: int) -> bytes:
        self._copy.seek(self._offsets[chunk, start])
        return self._copy.read(end - start)


def join_spans(rows: pa.Table) -> list[list[Span]]:
    """Joins the rows' payloads that are close together, up to `_SPAN_BYTES`, in order."""
    joined: list[list[Span]] = []
    columns = (rows[name].to_pylist() for name in Place._fields)
    places = map(Place._make, zip(*columns, strict=True))
    for span in sorted((place.chunk, *place.span) for place in places):
        first, last = (joined[-1][0], joined[-1][-1]) if joined else (None, None)
        if (
            first is not None
            and last is not None
            and last[0] == span[0]
            and span[1] - last[2] <= _GAP_BYTES
            and span[2] - first[1] <= _SPAN_BYTES
        ):
            joined[-1].append(span)
        else:
            joined.append([span])
    return joined


class PayloadReader(Payloads):
    """Payloads read in place, with at most 128 files open."""

    def __init__(self, work: WorkFolder, max_open: int = 128):
        """Prepares to read; a file is opened when it is first read."""
        self._work, self._max_open = work, max_open
        self._open: dict[str, BinaryIO] = {}

    def _get(self, chunk: str, start: int, end: int) -> bytes:
        opened = self._open.pop(chunk, None)
        if opened is None:
            if len(self._open) >= self._max_open:
                self._open.pop(next(iter(self._open))).close()
            path = self._work.payload_path(chunk)
            with _explained(path):
                opened = files.open_input(path)
        self._open[chunk] = opened  # Moves to the end; the first is the one used least recently.
        return os.pread(opened.fileno(), end - start, start)

    def close(self) -> None:
        """Closes the files."""
        for file in self._open.values():
            file.close()
        self._open.clear()


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _damaged(path, "is gone") from error


def _damaged(path: str, how: str) -> UserError:
    folder, is_prepared, _ = path.rpartition("/prepared/")
    way_out = (
        f"delete the folder {folder!r} and run ingest again on all images, with the same options"
    )
    if not is_prepared:  # It is of an earlier data set.
        way_out = (
            f"delete {SOURCES} in its data set's folder and run again: then all images are read"
        )
    return UserError(f"{path!r}, which the images are written from, {how}; {way_out}.")
