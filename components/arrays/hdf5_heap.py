"""Values of varying length in an HDF5 file: texts, and files such as JPEGs.

They are read here and not by HDF5, which in a damaged heap may go round for ever, or crash.
Source: HDF5 File Format Specification, III.E, "Disk Format: Level 1E - Global Heap".
"""

import array
import functools
import struct

import numpy as np

from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.images.bad_image import CORRUPT, BadImage

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
