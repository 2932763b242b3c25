"""The index in rows of one width: `index.rows`, which is mapped into memory instead of loaded.

56 bytes a record say where it is and what it is, in the order of `index.parquet`, from which they
are made. From a store rows are fetched by ranges. The file is too large to be hashed whenever it is
opened, so each row has a check word, by which a row that was read from anywhere can be trusted.
"""

import binascii
import mmap
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import reading_index, unreadable_index
from image_pipeline.components.dataset.manifest import Books
from image_pipeline.components.dataset.paths import ROWS
from image_pipeline.components.hashing import key_words
from image_pipeline.components.threads import map_in_order
from image_pipeline.components.trees import fetch_file

ROW = np.dtype(
    [
        ("offset", "<i8"),  # in the shard, of the record's length field
        ("length", "<i8"),  # of the serialized tf.train.Example
        ("record_id", "u1", 16),
        ("image_length", "<i4"),  # of the stored image, which ends the example
        ("height", "<i4"),  # of the stored image, in pixels
        ("width", "<i4"),
        ("label", "<i4"),  # position among `list_classes`
        ("channels", "u1"),
        ("is_raw", "?"),  # whether the image is stored as pixels
        ("unused", "<u2"),
        ("check", "<u4"),  # see `compute_checks`
    ]
)
COLUMNS = {
    "offset": "record_offset",
    "length": "record_length",
    "image_length": "payload_length",
    **{name: name for name in ("height", "width", "channels", "record_id", "label", "format")},
}
"""The columns of `index.parquet` that rows are made of, by what they are called here."""

_ID_DIGITS = 32
_WORDS = ROW.itemsize // 4
_KEYS = np.concatenate([key_words((0,)), key_words((1,))])[:_WORDS]
_BLOCK = 1 << 14  # Rows that are checked at once, so that their words stay in the cache.

# In a store, rows that are not farther apart are fetched together: 64 KiB take no longer than one.
_JOINED_ROWS = 2**16 // ROW.itemsize
_REQUESTS = 64  # Side by side.
_MAPPED_BYTES, _MOST_MAPPED_BYTES = 2**16, 2**27
_COPIED_BYTES = 2**26  # A file of this size is copied from a store at once.


def list_classes(books: Books) -> list[str]:
    """The classes of a data set as rows number them: the names of all splits, sorted."""
    return sorted({name for own in books.classes.values() for name in own})


def make_rows(table: pa.Table, classes: Sequence[str]) -> np.ndarray:
    """Rows of the index as `ROW`, without their check words.

    Args:
      table: `COLUMNS` of the index; what `check_rows` accepts.
      classes: the names by whose positions labels are numbered.

    Raises:
      ValueError: if an id's digits are not hexadecimal.
    """
    rows = np.zeros(len(table), ROW)
    for name in ("offset", "length", "image_length", "height", "width", "channels"):
        rows[name] = table[COLUMNS[name]].to_numpy()
    raw_formats = pa.array([name.decode() for name in record.RAW_FORMATS])
    rows["is_raw"] = pc.is_in(table["format"], raw_formats).to_numpy()
    known = pa.array(classes, pa.string())
    rows["label"] = pc.fill_null(pc.index_in(table["label"], known), -1).to_numpy()
    rows["record_id"] = _unhex(table["record_id"].combine_chunks())
    return rows


def seal_shard(rows: np.ndarray, sha256: str) -> np.ndarray:
    """Gives all rows of a shard (`ROW` [n]) their check words; `sha256` is the shard's."""
    keys = np.full(len(rows), key_of(sha256), np.uint64)
    rows["check"] = compute_checks(rows, np.arange(len(rows)), keys)
    return rows


def key_of(sha256: str) -> int:
    """What of a shard's SHA-256 its rows' check words depend on: the first 64 bits."""
    return int(sha256[:16], 16)


def compute_checks(rows: np.ndarray, numbers: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The check words of rows: a change of any goes unnoticed with a chance of 2**-32.

    The upper half of (a sum of the row's 32-bit words and its record's number, each times a random
    number, + the shard's key) mod 2**64: D. Lemire and O. Kaser, "Strongly universal string hashing
    is fast", 2014, MULTILINEAR. So a row is only right at its place in the index of its shard.

    Args:
      rows: `ROW` [n].
      numbers: int64 [n], of the records in their shards, from 0.
      keys: uint64 [n], `key_of` their shards.

    Returns:
      uint32 [n].
    """
    checks = np.empty(len(rows), np.uint32)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        words = np.ascontiguousarray(rows[part]).view("<u4").reshape(-1, _WORDS)
        words = words.astype(np.uint64)
        words[:, -1] = numbers[part]
        checks[part] = (words @ _KEYS + keys[part]) >> np.uint64(32)
    return checks


class RowFile:
    """The `index.rows` of a data set. Threads may share it."""

    def __init__(self, data_dir: str, records: int):
        """Opens it.

        Args:
          data_dir: the data set's folder.
          records: how many it must have.

        Raises:
          UserError: if it is missing, or has another size.
        """
        self._data_dir, self._path = data_dir, files.join(data_dir, ROWS)
        self._mapped: np.ndarray | None = None
        self._touched = 0  # Rows since the map was last cleared.
        with reading_index(data_dir, ROWS):
            size_bytes, _ = files.stat_file(self._path)
            if size_bytes != records * ROW.itemsize:
                why = f"it has {size_bytes:,} bytes, not {ROW.itemsize} for each record"
                raise unreadable_index(data_dir, why, ROWS)
            if size_bytes <= _COPIED_BYTES:
                self._path = fetch_file(self._path)
            if files.is_local(self._path):
                with open(self._path, "rb") as file:
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._map.madvise(mmap.MADV_RANDOM)
                self._mapped = np.frombuffer(self._map, ROW)

    def read(self, places: np.ndarray) -> np.ndarray:
        """Reads the rows at some places (int64 [n]), in their order: `ROW` [n], not checked.

        Raises:
          UserError: if the file cannot be read, or is shorter than it was.
        """
        # What is adjacent is read, not mapped: a scan of the whole file leaves nothing in memory.
        if len(places) > _BLOCK and (np.diff(places) == 1).all():
            return self._read_span((int(places[0]), int(places[-1]) + 1))
        if self._mapped is not None:
            # Linux maps 64 KiB around each row, and in time all of the file. What is cleared of a
            # large one stays in the page cache.
            self._touched += len(places)
            if self._touched * _MAPPED_BYTES > _MOST_MAPPED_BYTES < self._mapped.nbytes:
                self._map.madvise(mmap.MADV_DONTNEED)
                self._touched = 0
            return self._mapped[places]
        # Of a store, those that are close to one another are asked for together.
        wanted, back = np.unique(places, return_inverse=True)
        first = np.flatnonzero(np.diff(wanted, prepend=-1 - _JOINED_ROWS) > _JOINED_ROWS)
        starts, stops = wanted[first], wanted[[*(first[1:] - 1), -1]] + 1
        spans = list(zip(starts.tolist(), stops.tolist(), strict=True))
        rows = np.concatenate(
            list(map_in_order(self._read_span, spans, min(len(spans), _REQUESTS)))
        )
        # Where each span begins among the rows that were read.
        lengths = stops - starts
        shifts = np.repeat(np.cumsum(lengths) - lengths - starts, np.diff([*first, len(wanted)]))
        return rows[(wanted + shifts)[back]]

    def _read_span(self, span: tuple[int, int]) -> np.ndarray:
        start, stop = (place * ROW.itemsize for place in span)
        with reading_index(self._data_dir, ROWS):
            content = files.read_file(self._path, start, stop)
        if len(content) < stop - start:
            raise unreadable_index(self._data_dir, "it is shorter than it was", ROWS)
        return np.frombuffer(content, ROW)


def _unhex(digits: pa.StringArray) -> np.ndarray:
    """32 hexadecimal digits a row to uint8 [rows, 16], without a Python object per row."""
    if not len(digits):
        return np.zeros((0, 16), np.uint8)
    _, offsets, text = digits.buffers()
    ends = np.frombuffer(offsets, np.int32)[digits.offset : digits.offset + len(digits) + 1]
    if (np.diff(ends) != _ID_DIGITS).any():
        raise ValueError(f"its column record_id must have {_ID_DIGITS} digits in each row")
    binary = binascii.unhexlify(memoryview(text)[ends[0] : ends[-1]])
    return np.frombuffer(binary, np.uint8).reshape(len(digits), 16)
