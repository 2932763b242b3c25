"""Stored images, from a record's features or, by random access to the shards, from an index row.

Records are read by `pread`, not through memory maps. It lets other Python threads run while it
waits for the disk, where a page fault would stop them all; and a shard that is truncated while it
is read gives an error, where a map would end the process.
"""

import collections
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.examples import find_bytes
from image_pipeline.components.dataset.fetched import FetchedRecords, KeptShards, Place
from image_pipeline.components.dataset.index import Entry, RecordIndex
from image_pipeline.components.dataset.paths import MANIFEST
from image_pipeline.components.dataset.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    CorruptRecord,
    unframe,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import pause_collection


class StoredImage(NamedTuple):
    """An image as stored in a record; sides in pixels."""

    encoded: bytes | memoryview
    height: int
    width: int
    channels: int
    is_raw: bool
    dtype: record.PixelType = "uint8"
    """Of its values, if it is raw."""


IMAGE_KEYS = (record.IMAGE, record.HEIGHT, record.WIDTH, record.CHANNELS, record.FORMAT)


def take_image(features: Mapping[str, Any]) -> StoredImage:
    """The image of a record, from its features, which must include those of `IMAGE_KEYS`."""
    encoded, height, width, channels, stored_as = (features[key] for key in IMAGE_KEYS)
    dtype = record.RAW_FORMATS.get(bytes(stored_as))
    sides = int(height), int(width), int(channels)
    return StoredImage(encoded, *sides, dtype is not None, dtype or "uint8")


def take_parsed_image(feature: Mapping[str, Any]) -> StoredImage:
    """The image of a `tf.train.Example`, from its `features.feature`; see `take_image`."""
    lists = {key: feature[key] for key in IMAGE_KEYS}
    return take_image(
        {key: (each.bytes_list.value or each.int64_list.value)[0] for key, each in lists.items()}
    )


def _unreadable(path: str, error: OSError) -> UserError:
    return UserError(
        f"Cannot read the shard {path}: {error.strerror}; if it is gone or was changed, run ingest "
        "again."
    )


class ReplacedError(UserError):
    """A data set is another one than when its index was read. No other record of it may be used."""

    def __init__(self, root: str):
        """Names the data set's folder."""
        super().__init__(f"The data set {root!r} was replaced while it was read; start again.")


def _stamp(root: str) -> tuple[int, int] | None:
    """Tells a data set's manifest from another one; None if there is none, or in a store."""
    try:
        found = os.stat(files.join(root, MANIFEST))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _find_place(entry: Entry) -> Place:
    return entry.shard, entry.offset, HEADER_BYTES + entry.length + FOOTER_BYTES


class StoredRecords:
    """Reads serialized records by their row in the index. Threads may share it.

    The `max_open` files used last stay open: a data set may have more shards than a process may
    open files.
    """

    def __init__(self, index: RecordIndex, max_open: int = 128, kept: KeptShards | None = None):
        """Prepares to read; a file is opened when it is first read.

        Args:
          index: of the records.
          max_open: see above.
          kept: where records of shards in a store are kept.
        """
        self.index = index
        self.in_store = not all(map(files.is_local, index.roots))
        self._fetched = FetchedRecords(index.shard_paths, kept) if self.in_store else None
        self._max_open = max_open
        self._files: collections.OrderedDict[int, BinaryIO] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._stamps = {root: _stamp(root) for root in index.roots}

    def announce(self, entries: Sequence[Entry]) -> None:
        """Begins to fetch records, where they are in a store, for later reads; until `release`."""
        if self._fetched is not None:
            self._fetched.announce([_find_place(entry) for entry in entries])

    def release(self, entries: Sequence[Entry]) -> None:
        """Forgets records that were announced."""
        if self._fetched is not None:
            self._fetched.release([_find_place(entry) for entry in entries])

    def read(self, at: int | Entry, verify: bool = False) -> bytes:
        """Reads one record.

        Args:
          at: the record's row in the index, or, of several faster, what `index.locate` found there.
          verify: whether to check its checksums, which takes 0.1 ms per megabyte.

        Returns:
          The serialized tf.train.Example.

        Raises:
          UserError: if the shard ends before the record, a checksum is wrong, or it is another
            record than the index has there.
          ReplacedError: if the data set was replaced since: on a local disk as soon as a shard of
            the new one is opened, in a store at a record that is another one, or damaged.
        """
        entry = self.locate(at)
        place = _find_place(entry)
        framed = self._read_bytes(*place)
        if len(framed) < place[-1]:
            raise self.bad_record(entry, "the shard ends before it")
        # Of other people's records, nothing need say the id.
        is_another = self.index.is_ours and entry.record_id not in framed
        if not verify and not is_another:
            return framed[HEADER_BYTES:-FOOTER_BYTES]
        try:
            serialized = unframe(framed)
        except CorruptRecord as error:
            raise self.bad_record(entry, error.problem) from error
        if is_another:
            raise self.bad_record(entry, "its shard has another record there than the index")
        return serialized

    def locate(self, at: int | Entry) -> Entry:
        """Where a record is."""
        return at if isinstance(at, Entry) else self.index.locate(np.array([at]))[0]

    def read_image(self, at: int | Entry, verify: bool = False) -> StoredImage:
        """The image of one record, without parsing the record; otherwise like `read`."""
        entry = self.locate(at)
        serialized = self.read(entry, verify)
        encoded = memoryview(serialized)[len(serialized) - entry.image_length :]  # Its end.
        if not entry.image_length:
            encoded = self._find_bytes(entry, serialized, record.IMAGE)
        sides = entry.height, entry.width, entry.channels
        return StoredImage(encoded, *sides, entry.is_raw, self.index.dtype)

    def read_mask(self, at: int | Entry, verify: bool = False) -> bytes:
        """The mask of one record, as it is stored; otherwise like `read`."""
        return bytes(self._find_bytes(at, self.read(at, verify), record.MASK))

    def _find_bytes(self, at: int | Entry, serialized: bytes, key: str) -> memoryview:
        try:
            return find_bytes(serialized, key)
        except ValueError as error:
            raise self.bad_record(at, error) from error

    def _read_bytes(self, shard: int, start: int, size: int) -> bytes:
        path = self.index.shard_paths[shard]
        if self._fetched is not None:
            try:
                return self._fetched.read((shard, start, size))
            except OSError as error:
                raise _unreadable(path, error) from error
        file = self._file(shard)  # Held, or it closes if another thread needs its place.
        try:
            return os.pread(file.fileno(), size, start)
        except OSError as error:
            raise _unreadable(path, error) from error

    def _file(self, shard: int) -> BinaryIO:
        with self._lock:
            file = self._files.pop(shard, None)
            if file is None:
                file = self._open(shard)
                self._refuse_another(shard)
                while len(self._files) >= self._max_open:
                    # Not closed here: another thread may read it. It closes with its last user.
                    self._files.popitem(last=False)
            self._files[shard] = file  # Moves to the end; the first is the one used least recently.
            return file

    def _open(self, shard: int) -> BinaryIO:
        path = self.index.shard_paths[shard]
        try:
            files.refuse_pipe(path)
            return open(path, "rb", buffering=0)
        except OSError as error:
            raise _unreadable(path, error) from error

    def _refuse_another(self, shard: int) -> None:
        """Refuses a shard, once it is open, if its data set is another one by now.

        That may have records of the same sizes, with other labels than the index has. Its manifest
        is the last to arrive, and the one before is the first to leave.
        """
        root = self.index.root_of(shard)
        if _stamp(root) != self._stamps[root]:
            raise ReplacedError(root)

    def bad_record(self, at: int | Entry, problem: object) -> UserError:
        """The error of a record that cannot be read or decoded.

        Raises:
          ReplacedError: if that is because the data set was replaced.
        """
        # A data set's iterator that has failed may be garbage by now, and this one of its threads.
        with pause_collection():
            if self.index.was_replaced(shard := self.locate(at).shard):
                raise ReplacedError(self.index.root_of(shard))
            described = self.index.describe(at.row if isinstance(at, Entry) else at)
        again = "run ingest again" if self.index.is_ours else "write its file again"
        return UserError(
            f"{described} is damaged: {problem}; {again}, or set "
            "feeding.bad_records=skip to go on without it."
        )
