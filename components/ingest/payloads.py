"""Writes prepared images to the chunks' payload files, and reads them in any order.

Each has a checksum from before it is written, since a record gets its own only when it is made of
what was read: damage in between would go on unseen, into a data set that verifies.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Protocol

import google_crc32c
import numpy as np
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.places import order_keys
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.threads import REMOTE_THREADS, map_in_order

# Spans of a remote file that are closer than this are read in one request: at 100 MB/s the gap
# takes less time than Python's part of another request, 1.5 ms.
_GAP_BYTES = 128 * 2**10
_SPAN_BYTES = 2**20  # Each thread holds one of these.

# Images that are sorted before they are written to a store: about 300.
_BLOCK_BYTES = 8 * 2**20

Result = tuple[dict, bytes]  # a source's row, and its prepared image: b"" if it is quarantined
Span = tuple[str, int, int]  # chunk, first byte, end


class Payloads(Protocol):
    """A source of prepared images."""

    def read(self, chunk: str, offset: int, length: int, crc32c: int) -> bytes:
        """Reads `length` bytes at `offset` of a chunk's payloads, and verifies their checksum.

        Raises:
          UserError: if they are not those that were written.
        """


def write_payloads(results: Iterable[Result], name: str, work: WorkFolder, seed: int) -> list[dict]:
    """Writes the payloads of a chunk, as they come.

    To a store they go in blocks, each in the shuffled order: a shard's images in a block are then
    adjacent, and are read in one request instead of one each.

    Args:
      results: what was prepared, in the order of the sources.
      name: name of the chunk.
      work: the working folder.
      seed: of the shuffled order.

    Returns:
      The rows, in the order of the sources, with the columns chunk, payload_offset,
      payload_length and payload_crc32c.
    """
    rows: list[dict] = []
    offset = 0
    is_local = work.is_local
    with files.write_atomically(work.payload_path(name)) as file:
        for block in make_blocks(results, 1 if is_local else _BLOCK_BYTES):
            rows += [row for row, _ in block]
            ordered = block if is_local else _shuffle(block, seed)
            for row, payload in ordered:
                row |= {"chunk": name, "payload_offset": offset, "payload_length": len(payload)}
                row["payload_crc32c"] = google_crc32c.value(payload)
                offset += len(payload)
            file.write(b"".join(payload for _, payload in ordered))
    return rows


def make_blocks(results: Iterable[Result], block_bytes: int) -> Iterator[list[Result]]:
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


def _shuffle(block: list[Result], seed: int) -> list[Result]:
    """Brings results into the order of their records, whatever their splits."""
    ids = b"".join(row.get("record_id") or bytes(16) for row, _ in block)
    halves = np.frombuffer(ids, ">u8").reshape(-1, 2).astype(np.uint64)
    return [block[number] for number in np.argsort(order_keys(halves, seed), kind="stable")]


@contextlib.contextmanager
def open_payloads(rows: pa.Table, work: WorkFolder) -> Iterator[Payloads]:
    """Gives access to the payloads of some rows.

    From a remote working folder, threads first copy them to a temporary file: read one by one, each
    would wait for the store.

    Args:
      rows: with the columns chunk, payload_offset and payload_length.
      work: the working folder.
    """
    with contextlib.ExitStack() as stack:
        if work.is_local:
            yield stack.enter_context(contextlib.closing(PayloadReader(work)))
        else:
            copy = stack.enter_context(tempfile.TemporaryFile())
            yield CopiedPayloads(rows, work, copy)


class CopiedPayloads:
    """Payloads copied to a local file."""

    def __init__(self, rows: pa.Table, work: WorkFolder, copy: BinaryIO):
        """Copies the payloads of the rows."""
        self._work, self._copy = work, copy
        self._places: dict[tuple[str, int], int] = {}
        spans = join_spans(rows)

        def fetch(span: list[Span]) -> bytes:
            path, start, end = work.payload_path(span[0][0]), span[0][1], span[-1][2]
            with _explained(path):
                return files.read_file(path, start, end)

        fetched = map_in_order(fetch, spans, REMOTE_THREADS, ahead=1)
        for span, content in zip(spans, fetched, strict=True):
            first = span[0][1]
            for chunk, start, end in span:  # The gaps between them are not kept.
                self._places[chunk, start] = copy.tell()
                copy.write(content[start - first : end - first])

    def read(self, chunk: str, offset: int, length: int, crc32c: int) -> bytes:
        """As `Payloads.read`."""
        self._copy.seek(self._places[chunk, offset])
        return _check(self._copy.read(length), self._work.payload_path(chunk), length, crc32c)


def join_spans(rows: pa.Table) -> list[list[Span]]:
    """Joins the rows' payloads that are close together, up to `_SPAN_BYTES`, in order."""
    columns = (rows[name].to_pylist() for name in ("chunk", "payload_offset", "payload_length"))
    joined: list[list[Span]] = []
    for chunk, start, length in sorted(zip(*columns, strict=True)):
        span = (chunk, start, start + length)
        first, last = (joined[-1][0], joined[-1][-1]) if joined else (None, None)
        if (
            first is not None
            and last is not None
            and last[0] == chunk
            and start - last[2] <= _GAP_BYTES
            and span[2] - first[1] <= _SPAN_BYTES
        ):
            joined[-1].append(span)
        else:
            joined.append([span])
    return joined


class PayloadReader:
    """Payloads read in place, with at most 128 files open."""

    def __init__(self, work: WorkFolder, max_open: int = 128):
        """Prepares to read; a file is opened when it is first read."""
        self._work = work
        self._max_open = max_open
        self._open: dict[str, BinaryIO] = {}

    def read(self, chunk: str, offset: int, length: int, crc32c: int) -> bytes:
        """As `Payloads.read`."""
        path, file = self._work.payload_path(chunk), self._open.pop(chunk, None)
        if file is None:
            if len(self._open) >= self._max_open:
                self._open.pop(next(iter(self._open))).close()
            with _explained(path):
                file = files.open_input(path)
        self._open[chunk] = file  # Moves to the end; the first is the one used least recently.
        file.seek(offset)
        return _check(file.read(length), path, length, crc32c)

    def close(self) -> None:
        """Closes the files."""
        for file in self._open.values():
            file.close()
        self._open.clear()


def _check(data: bytes, path: str, length: int, crc32c: int) -> bytes:
    if len(data) != length or google_crc32c.value(data) != crc32c:
        raise _damaged(path, "is not as it was written")
    return data


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _damaged(path, "is gone") from error


def _damaged(path: str, how: str) -> UserError:
    return UserError(
        f"{path!r}, which the images are written from, {how}; delete the folder "
        f"{path.rpartition('/prepared/')[0]!r} and run ingest again on all images, with the same "
        "options."
    )
