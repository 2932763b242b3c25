"""Bytes of an HDF5 file that are read and unpacked here: chunks, and values of varying length.

HDF5 goes through all chunks to find one, holds one lock for all of a process, unpacks a chunk to
whatever size it has, and in a damaged heap may go round for ever, or crash. Source: HDF5 File
Format Specification, III.E, "Disk Format: Level 1E - Global Heap".
"""

import array
import functools
import math
import struct
import threading
import zlib
from typing import Any

import h5py
import numpy as np

from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.arrays.arrays import BLOCKS, list_corners, read_chunks
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

HDF5_LOCK = threading.Lock()
"""Held by whoever asks HDF5 for anything."""

POINTER = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""How a row of varying length is stored: its length, its collection, and its number in that."""

MOST_TEXT_BYTES = 2**20
# A collection: mark, version, 3 spare bytes, size in bytes with this header. Then its objects.
_COLLECTION = struct.Struct("<4sB3xQ")
# An object: number (0: free space up to the end), references, 4 spare bytes, size. Then its bytes.
_OBJECT = struct.Struct("<HH4xQ")
_MARK, _VERSION = b"GCOL", 1
_MOST_OBJECTS = 2**16  # since numbers have two bytes
_BLOCK_BYTES = 16 * 2**10
# Values of a collection that lie within so many bytes are read at once.
_SPAN_BYTES = 2**20
# As much as 100 MB, if all are full.
_HELD_COLLECTIONS = 64
DEFLATE, SHUFFLE = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE
_FLETCHER32, _FLETCHER32_BYTES = h5py.h5z.FILTER_FLETCHER32, 4
# What filters add to a chunk that they do not make smaller.
_MOST_ADDED_BYTES = 2**16


class ChunkList:
    """Where each chunk of a data set is, in 32 bytes of memory.

    HDF5 goes through all chunks to find one, which takes 25 ms where there are 100,000; so it is
    asked for all of them once, when the first is wanted.
    """

    def __init__(self, item: h5py.Dataset):
        """Asks nothing yet."""
        self._item, self._chunk = item, item.chunks
        self._counts = [-(-n // c) for n, c in zip(item.shape, item.chunks, strict=True)]

    def find(self, corner: tuple[int, ...]) -> tuple[int, int, int] | None:
        """Finds a chunk by the indices of its first value.

        Returns:
          Its first byte, its size, and a bit for each filter that it did not go through; None if it
          was never written.

        Raises:
          BadImage: if it is not known, since the file is damaged.
        """
        numbers, places, problem = self._listed
        number = self._count(corner)
        at = int(np.searchsorted(numbers, number))
        if at < len(numbers) and numbers[at] == number:
            start, size, skipped_filters = places[at].tolist()
            return start, size, skipped_filters
        if problem:
            raise BadImage(CORRUPT, f"{self._item.name!r} cannot be read ({problem})")
        return None

    def _count(self, corner: tuple[int, ...]) -> int:
        """A chunk's number, as if all were written; the last dimension counts fastest."""
        number = 0
        for at, size, count in zip(corner, self._chunk, self._counts, strict=True):
            number = number * count + at // size
        return number

    @functools.cached_property
    def _listed(self) -> tuple[np.ndarray, np.ndarray, str]:
        """Numbers of chunks, sorted; where they are, int64 [chunks, 3]; what cut the list short."""
        listed, problem = array.array("q"), ""

        def add(info: Any) -> None:
            number = self._count(info.chunk_offset)
            listed.extend((number, info.byte_offset, info.size, info.filter_mask))

        try:
            with HDF5_LOCK:
                self._item.id.chunk_iter(add)
        except (OSError, RuntimeError, ValueError) as error:
            problem = str(error)
        found = np.frombuffer(listed, np.int64).reshape(-1, 4)
        rows = found[np.argsort(found[:, 0], kind="stable")]
        return np.ascontiguousarray(rows[:, 0]), rows[:, 1:], problem


def filters_of(item: h5py.Dataset) -> list[int]:
    """The codes of what its chunks went through, in that order."""
    properties = item.id.get_create_plist()
    return [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]


class ChunkReader:
    """Rows of a data set in chunks, which may be packed by deflate and shuffled."""

    def __init__(self, item: h5py.Dataset, dtype: np.dtype, source: FileBytes):
        """Holds nothing of the data."""
        self._item, self._dtype, self._source = item, dtype, source
        self._shape, self._chunk = item.shape, item.chunks
        self._chunks = ChunkList(item)
        self._filters = filters_of(item)
        self._has_pointers = dtype == POINTER
        self._checked: set[tuple[int, ...]] = set()

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows from one number up to another; see `StoredArray.read`."""

        def take(corner: tuple[int, ...]) -> np.ndarray:
            if self._has_pointers:  # They are kept, since files are mostly read one by one.
                return BLOCKS.get((self, corner), lambda: self._read_chunk(corner))
            return self._read_chunk(corner)

        return read_chunks(self._shape, self._chunk, self._dtype, (start, stop), take)

    def check(self, start: int, stop: int) -> None:
        """Raises BadImage if chunks of these rows are, or unpack to, more than they can have."""
        for corner in list_corners(self._shape, self._chunk, start, stop):
            found = None if corner in self._checked else self._chunks.find(corner)
            if found is not None:
                self._unpack(*found)
            self._checked.add(corner)

    def _read_chunk(self, corner: tuple[int, ...]) -> np.ndarray:
        """A whole chunk; those that were never written have the value that stands for that."""
        found = self._chunks.find(corner)
        if found is None:
            return np.full(self._chunk, self._fill, self._dtype)
        data = self._unpack(*found)
        if len(data) != self._chunk_bytes:
            raise BadImage(CORRUPT, f"a chunk of {self._item.name!r} has {len(data)} bytes")
        return np.frombuffer(data, self._dtype).reshape(self._chunk)

    def _unpack(self, offset: int, size: int, skipped_filters: int) -> bytes:
        """A chunk's bytes without those filters that are known; HDF5 undoes others."""
        if size > self._chunk_bytes + _MOST_ADDED_BYTES:
            message = f"a chunk of {self._item.name!r} has {size:,} bytes, packed"
            raise BadImage(CORRUPT, f"{message}, where {self._chunk_bytes:,} are all its values")
        data = self._source.read(offset, size)
        for place, code in reversed(list(enumerate(self._filters))):
            if skipped_filters & 1 << place:
                continue
            if code == _FLETCHER32:
                data = data[:-_FLETCHER32_BYTES]
            elif code == DEFLATE:
                data = self._inflate(data)
            elif code == SHUFFLE:
                data = self._unshuffle(data)
        return data

    @functools.cached_property
    def _fill(self) -> Any:
        if self._has_pointers:
            return np.zeros((), self._dtype)
        with HDF5_LOCK:
            return self._item.fillvalue

    @property
    def _chunk_bytes(self) -> int:
        return self._dtype.itemsize * math.prod(self._chunk)

    def _inflate(self, data: bytes) -> bytes:
        unpacking = zlib.decompressobj()
        try:
            # One byte more than there is: at the last one it would stop, before the checksum.
            unpacked = unpacking.decompress(data, self._chunk_bytes + 1)
        except zlib.error as error:
            message = f"a chunk of {self._item.name!r} cannot be unpacked ({error})"
            raise BadImage(CORRUPT, message) from error
        if not unpacking.eof:
            message = f"a chunk of {self._item.name!r} has no end, or unpacks to more than"
            raise BadImage(CORRUPT, f"{message} {self._chunk_bytes:,} bytes")
        return unpacked

    def _unshuffle(self, data: bytes) -> bytes:
        """The first byte of every value, then the second …: back into their order."""
        size = self._dtype.itemsize
        if size == 1 or len(data) % size:
            return data
        return np.frombuffer(data, np.uint8).reshape(size, -1).T.tobytes()


class Heap:
    """What a file's pointers point to. Threads may share it."""

    def __init__(self, source: FileBytes, start: int, size: int):
        """Reads nothing yet.

        Args:
          source: the file.
          start: the byte that addresses count from.
          size: of the file, in bytes.
        """
        self.source, self._start, self._size = source, start, size
        self._list = functools.lru_cache(_HELD_COLLECTIONS)(self._list_objects)

    def read(self, pointers: np.ndarray) -> np.ndarray:
        """Reads the values of some rows.

        Args:
          pointers: `POINTER` [...].

        Returns:
          object [...], each a `bytes`.

        Raises:
          BadImage: if one of them is damaged.
        """
        flat = pointers.reshape(-1)
        values = np.full(len(flat), b"", object)
        filled = np.flatnonzero(flat["length"])
        for address in np.unique(flat["address"][filled]).tolist():
            rows = filled[flat["address"][filled] == address]
            for row, value in zip(rows.tolist(), self._read_some(address, flat[rows]), strict=True):
                values[row] = value
        return values.reshape(pointers.shape)

    def _read_some(self, address: int, pointers: np.ndarray) -> list[bytes]:
        """Values of one collection."""
        objects, lengths = self._list(address), pointers["length"].astype(np.int64)
        at = np.searchsorted(objects[:, 0], pointers["index"])
        at = np.minimum(at, len(objects) - 1)
        numbers, starts, sizes = objects[at].T
        if (numbers != pointers["index"]).any() or (sizes < lengths).any():
            raise BadImage(
                CORRUPT, f"a text or file is not among those at byte {address}, where it should be"
            )
        places = np.stack([starts, starts + lengths], axis=1)
        first, last = int(places.min()), int(places.max())
        if last - first > _SPAN_BYTES:
            return [self.source.read(start, stop - start) for start, stop in places.tolist()]
        data = self.source.read(first, last - first)
        return [data[start:stop] for start, stop in (places - first).tolist()]

    def _list_objects(self, address: int) -> np.ndarray:
        """Numbers, sorted, first bytes and sizes of a collection's objects: int64 [n, 3]."""
        at = self._start + address
        end = self._find_end(at)
        at += _COLLECTION.size
        listed, block, block_start = array.array("q"), b"", at
        while at + _OBJECT.size <= end and len(listed) < 3 * _MOST_OBJECTS:
            if at + _OBJECT.size > block_start + len(block):
                block, block_start = self.source.read(at, min(_BLOCK_BYTES, end - at)), at
            number, _, size = _OBJECT.unpack_from(block, at - block_start)
            start = at + _OBJECT.size
            if not number or size > end - start:
                break
            listed.extend((number, start, size))
            at = start + size + -size % 8
        if not listed:
            raise BadImage(CORRUPT, f"the texts or files at byte {address} are damaged")
        objects = np.frombuffer(listed, np.int64).reshape(-1, 3)
        return objects[np.argsort(objects[:, 0], kind="stable")]

    def _find_end(self, start: int) -> int:
        """The byte that a collection ends before; HDF5's own are never longer than the file."""
        if start + _COLLECTION.size <= self._size:
            header = self.source.read(start, _COLLECTION.size)
            mark, version, size = _COLLECTION.unpack(header)
            if (mark, version) == (_MARK, _VERSION) and start + size <= self._size:
                return start + size
        raise BadImage(CORRUPT, f"no texts or files lie at byte {start}, where they should")
