"""A data set's index for readers: where each record is and what it is, read when it is asked for.

Other columns, for selection and messages, are read from `index.parquet`.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import dataset

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import (
    INDEX_SCHEMA,
    check_index,
    check_rows,
    reading_index,
    unreadable_index,
)
from image_pipeline.components.dataset.index_rows import (
    COLUMNS,
    ROW,
    RowFile,
    compute_checks,
    key_of,
    list_classes,
    make_rows,
)
from image_pipeline.components.dataset.manifest import Manifest, has_manifest, read_manifest
from image_pipeline.components.dataset.paths import (
    INDEX,
    ROWS,
    check_all_known,
    group_by_root,
    match_path,
    number_paths,
    numbers_by_split,
    order_by_path,
    parse_split,
)
from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, HEADER_BYTES
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest
from image_pipeline.components.threads import map_in_order
from image_pipeline.components.trees import fetch_file

# Row groups that are read ahead while one is processed; each is held as text.
_BATCHES_AHEAD = 4
_BLOCK = 1 << 16  # Rows that a scan takes at a time.


class IndexRows(NamedTuple):
    """What the index says of some records, a value a record.

    Attributes:
      shard: int32 [n], number of the record's shard in `RecordIndex.shard_paths`.
      offset: int64 [n], position of the record's length field in its shard, in bytes.
      length: int64 [n], size of the serialized tf.train.Example, in bytes.
      image_length: int32 [n], size of the stored image, which ends the example, in bytes; 0 where
        only the example tells where it is.
      height: int32 [n], of the stored image, in pixels.
      width: int32 [n].
      channels: uint8 [n].
      is_raw: bool [n], whether the image is stored as pixels.
      record_id: uint8 [n, 16].
      label: int32 [n], number of the record's class in `RecordIndex.classes`.
    """

    shard: np.ndarray
    offset: np.ndarray
    length: np.ndarray
    image_length: np.ndarray
    height: np.ndarray
    width: np.ndarray
    channels: np.ndarray
    is_raw: np.ndarray
    record_id: np.ndarray
    label: np.ndarray

    def list_entries(self, rows: np.ndarray) -> "list[Entry]":
        """The same record by record, as Python's values; `rows` are those of the index."""
        columns = (getattr(self, name).tolist() for name in Entry._fields[1:-1])
        digits = self.record_id.tobytes().hex().encode()
        ids = [digits[start : start + 32] for start in range(0, len(digits), 32)]
        return list(map(Entry._make, zip(rows.tolist(), *columns, ids, strict=True)))


class Entry(NamedTuple):
    """What the index says of one record, as Python's values; see `IndexRows`."""

    row: int
    shard: int
    offset: int
    length: int
    image_length: int
    height: int
    width: int
    channels: int
    is_raw: bool
    label: int
    record_id: bytes
    """Its 32 hexadecimal digits, as the record has them."""


@dataclasses.dataclass(frozen=True)
class DataSet:
    """Some shards of one data set, and the rows of all that it has.

    Attributes:
      root: its folder.
      shard_paths: the shards that are read, sorted.
      counts: int64 [shards], their records.
      firsts: int64 [shards], places of their first rows.
      sizes: int64 [shards], in bytes.
      keys: uint64 [shards], see `compute_checks`.
      read: the rows at some places (int64 [n]): `ROW` [n].
      names: the classes by which rows number labels.
      classes: those of the splits that are read, sorted.
      dtype: of values that are stored as pixels.
      nbytes: what its rows hold in memory, in bytes.
      is_ours: whether ingest wrote it, and its index, which has further columns.
    """

    root: str
    shard_paths: tuple[str, ...]
    counts: np.ndarray
    firsts: np.ndarray
    sizes: np.ndarray
    keys: np.ndarray
    read: Callable[[np.ndarray], np.ndarray]
    names: Sequence[str]
    classes: Sequence[str]
    dtype: record.PixelType
    nbytes: int = 0
    is_ours: bool = True


class RecordIndex:
    """The records of some shards, in the order of the shards and of their positions in them.

    Held are some numbers a shard. What a record's row says is read when it is asked for: of some
    rows by `take`; of all, block by block, by `scan`. As an attribute, a whole column of
    `IndexRows` is read once, and held.

    Attributes:
      roots: the data sets' folders, sorted.
      shard_paths: the shards, by data set and sorted.
      classes: the names of the classes of the splits that are read, sorted.
      dtype: of the values of images that are stored as pixels.
      starts: int64 [shards + 1], the first row of each shard, and the number of all records.
      is_ours: whether all are of data sets that ingest wrote.
      sizes: int64 [shards], in bytes; of a data set without `index.rows` the greatest there is.
      nbytes: what is held in memory but for columns, in bytes.
    """

    def __init__(self, data_sets: Sequence[DataSet]):
        """Puts the shards of one or more data sets one after the other.

        Raises:
          UserError: if their pixels are of different types.
        """
        self.roots = tuple(each.root for each in data_sets)
        self.shard_paths = tuple(path for each in data_sets for path in each.shard_paths)
        self.classes = tuple(sorted({name for each in data_sets for name in each.classes}))
        self.dtype = _common_type(data_sets)
        self.is_ours = all(each.is_ours for each in data_sets)
        self._data_sets = data_sets
        joined = {
            name: np.concatenate([getattr(each, name) for each in data_sets])
            for name in ("counts", "firsts", "sizes", "keys")
        }
        self.starts = np.concatenate([[0], np.cumsum(joined["counts"])])
        self._firsts, self.sizes, self._keys = (joined[n] for n in ("firsts", "sizes", "keys"))
        self._data_set_of = np.repeat(
            np.arange(len(data_sets), dtype=np.int32), [len(each.counts) for each in data_sets]
        )
        # What each data set's labels are in `classes`, data set by data set.
        numbers = {name: number for number, name in enumerate(self.classes)}
        self._numbers = np.array(
            [numbers.get(name, -1) for each in data_sets for name in each.names], np.int32
        )
        self._class_counts = np.array([len(each.names) for each in data_sets])
        self._first_classes = np.cumsum(self._class_counts) - self._class_counts
        held = (self.starts, self._firsts, self.sizes, self._keys, self._data_set_of)
        self.nbytes = sum(each.nbytes for each in (*held, *data_sets))

    def __len__(self) -> int:
        """The number of records."""
        return int(self.starts[-1])

    def __getattr__(self, name: str) -> np.ndarray:
        """A whole column of `IndexRows`, which is held from then on."""
        if name not in IndexRows._fields:
            raise AttributeError(name)
        column = self.__dict__[name] = self.column(name)
        return column

    @property
    def identity(self) -> str:
        """Tells these shards from all others: 64 hexadecimal digits, of their checksums."""
        return hashlib.sha256(self._keys.tobytes() + self.sizes.tobytes()).hexdigest()

    @property
    def record_bytes(self) -> int:
        """The mean size of a serialized record, rounded down, as the shards' sizes tell it."""
        framing_bytes = len(self) * (HEADER_BYTES + FOOTER_BYTES)
        return int(self.sizes.sum() - framing_bytes) // len(self)

    @property
    def data_set(self) -> np.ndarray:
        """int32 [records], number of the record's data set in `roots`."""
        return np.repeat(self._data_set_of, np.diff(self.starts))

    def list_first_rows(self) -> list[np.ndarray]:
        """The row of each shard's first record, for each data set: int64 [shards]."""
        numbers = range(len(self.roots))
        return [self.starts[:-1][self._data_set_of == number] for number in numbers]

    def column(self, name: str) -> np.ndarray:
        """Reads a column of `IndexRows` for all records."""
        return np.concatenate([getattr(rows, name).copy() for rows in self.scan()])

    def scan(self) -> Iterator[IndexRows]:
        """Reads what the index says of all records, some at a time, in their order."""
        blocks = (
            np.arange(start, min(start + _BLOCK, len(self)))
            for start in range(0, len(self), _BLOCK)
        )
        yield from map_in_order(self.take, blocks, files.count_threads(self.roots[0]), ahead=1)

    def take(self, rows: np.ndarray) -> IndexRows:
        """Reads what the index says of some records.

        Args:
          rows: int64 [n], their rows, in any order, also repeatedly.

        Returns:
          The columns of just these rows, in their order.

        Raises:
          UserError: if what is read is not what ingest wrote.
        """
        shard = np.searchsorted(self.starts, rows, "right") - 1
        numbers = rows - self.starts[shard]
        places, data_set = self._firsts[shard] + numbers, self._data_set_of[shard]
        if len(self._data_sets) == 1:
            found = self._data_sets[0].read(places)
        else:
            found = np.empty(len(rows), ROW)
            for number in np.unique(data_set).tolist():
                own = data_set == number
                found[own] = self._data_sets[number].read(places[own])
        # Rows must be sealed, and say what can be: a record within its shard, and a known class.
        free = self.sizes[shard] - found["offset"] - (HEADER_BYTES + FOOTER_BYTES)
        is_right = found["check"] == compute_checks(found, numbers, self._keys[shard])
        is_right &= (found["offset"] >= 0) & (found["length"] <= free)
        is_right &= (found["image_length"] >= 0) & (found["image_length"] <= found["length"])
        is_right &= (found["label"] >= 0) & (found["label"] < self._class_counts[data_set])
        if not is_right.all():
            wrong = int(np.argmin(is_right))
            path = self.shard_paths[shard[wrong]]
            why = f"its row of record {numbers[wrong]} of {path} is not as it was"
            raise unreadable_index(self.roots[data_set[wrong]], why, ROWS)
        label = self._numbers[self._first_classes[data_set] + found["label"]]
        kept = (found[name] for name in IndexRows._fields[1:-1])
        return IndexRows._make([shard.astype(np.int32), *kept, label])

    def locate(self, rows: np.ndarray) -> list[Entry]:
        """Reads where some records are (rows int64 [n]): by `take`, 50 µs and 1 µs a record."""
        return self.take(rows).list_entries(rows)

    def root_of(self, shard: int) -> str:
        """The folder of the data set that a shard is of."""
        return self.roots[self._data_set_of[shard]]

    def was_replaced(self, shard: int) -> bool:
        """Whether a shard is another one by now, or gone, as its data set's manifest tells."""
        root, key = self.root_of(shard), int(self._keys[shard])
        if not self.is_ours or not key:  # Without a manifest, nothing tells.
            return False
        if not has_manifest(root):
            return True
        listed = {each.file: each.sha256 for _, _, each in read_manifest(root).list_shards()}
        sha256 = listed.get(self.shard_paths[shard][len(root) + 1 :])
        return sha256 is None or key_of(sha256) != key

    def describe(self, row: int) -> str:
        """Names a record for a message: its shard, its number there and its source."""
        shard = int(np.searchsorted(self.starts, row, "right")) - 1
        number, path = row - int(self.starts[shard]), self.shard_paths[shard]
        if not self.is_ours:
            return f"record {number} of {path}"
        source = read_table([path], ["source"])["source"][number].as_py()
        return f"record {number} of {path} (source {source!r})"


def is_indexed(shard_paths: Sequence[str]) -> bool:
    """Tells whether all files are shards of data sets, whose folders they are in, with an index."""
    matches = [match_path(path) for path in shard_paths]
    roots = {match["root"] if match else None for match in matches}
    return bool(roots) and all(
        root is not None and files.exists(files.join(root, INDEX)) for root in roots
    )


def find_index(shard_paths: Sequence[str]) -> RecordIndex | None:
    """`read_index`, or None for files that are not indexed, see `is_indexed`."""
    return read_index(shard_paths) if is_indexed(shard_paths) else None


def read_index(
    shard_paths: Sequence[str], manifests: Mapping[str, Manifest] | None = None
) -> RecordIndex:
    """Reads the index of some shards, which may be of several data sets.

    Args:
      shard_paths: see `is_indexed`; each at most once.
      manifests: of the data sets, by their folders, if they have been read already.

    Raises:
      UserError: if a shard is missing from its index, or an index was changed since it was written.
    """
    given = manifests or {}
    return RecordIndex(
        [_open(root, paths, given.get(root)) for root, paths in group_by_root(shard_paths)]
    )


def _common_type(data_sets: Sequence[DataSet]) -> record.PixelType:
    """The type of all data sets' values."""
    by_type = {each.dtype: each.root for each in data_sets}
    if len(by_type) > 1:
        named = " and ".join(f"{dtype} ({root})" for dtype, root in sorted(by_type.items()))
        raise UserError(
            f"data sets that are read together must have values of one type, got {named}; ingest "
            "them with the same ingest.prepare.dtype."
        )
    return next(iter(by_type))


def _open(root: str, paths: tuple[str, ...], manifest: Manifest | None) -> DataSet:
    """Opens the rows of one data set."""
    if manifest is None and has_manifest(root):
        manifest = read_manifest(root)
    if manifest is None or ROWS not in manifest.files:
        return _load(root, paths)
    listed = [shard for _, _, shard in manifest.list_shards()]
    place = {shard.file: number for number, shard in enumerate(listed)}
    firsts = np.cumsum([0, *(shard.records for shard in listed)])
    chosen = np.array([place.get(path[len(root) + 1 :], -1) for path in paths], np.int64)
    counts = np.array([*(shard.records for shard in listed), 0], np.int64)[chosen]
    check_all_known(counts, paths, root)
    splits = {parse_split(path) for path in paths}
    return DataSet(
        root=root,
        shard_paths=paths,
        counts=counts,
        firsts=firsts[chosen],
        sizes=np.array([listed[number].bytes for number in chosen], np.int64),
        keys=np.array([key_of(listed[number].sha256) for number in chosen], np.uint64),
        read=RowFile(root, int(firsts[-1])).read,
        names=list_classes(manifest.books),
        classes=[name for split in splits for name in manifest.books.classes.get(split, ())],
        dtype=manifest.dtype,
    )


def _load(root: str, paths: tuple[str, ...]) -> DataSet:
    """Makes the rows of a data set that has none, in memory.

    From the index, row group by row group, so that at most one is held as text: ten million records
    take a few seconds, and hardly more memory than their rows.
    """
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    names, formats = dict[str, int](), set[str]()  # Names by their numbers, as they come.
    check_index(root)
    for path_number, batch in _scan(root, paths):
        table = pa.Table.from_batches([batch])
        for name in pc.unique(table["label"]).to_pylist():
            names.setdefault(name, len(names))
        try:
            parts.append((path_number, make_rows(table, list(names))))
        except ValueError as error:  # An id's digits are not hexadecimal.
            raise unreadable_index(root, error) from error
        formats |= set(pc.unique(table["format"]).to_pylist())
    path_number, rows = (
        np.concatenate([empty, *(part[side] for part in parts)])
        for side, empty in enumerate((np.zeros(0, np.int32), np.zeros(0, ROW)))
    )
    counts = np.bincount(path_number, minlength=len(paths))
    check_all_known(counts, paths, root)
    rows = rows[order_by_path(path_number)]
    classes = sorted(names)
    rank = {name: number for number, name in enumerate(classes)}
    rows["label"] = np.array([rank[name] for name in names], np.int32)[rows["label"]]
    firsts = np.cumsum(counts) - counts
    keys, last = np.zeros(len(paths), np.uint64), rows[firsts + counts - 1]
    of_row = np.repeat(np.arange(len(paths)), counts)
    rows["check"] = compute_checks(rows, np.arange(len(rows)) - firsts[of_row], keys[of_row])
    types = {record.RAW_FORMATS.get(name.encode(), "uint8") for name in formats}
    return DataSet(
        root=root,
        shard_paths=paths,
        counts=counts,
        firsts=firsts,
        sizes=last["offset"] + last["length"] + (HEADER_BYTES + FOOTER_BYTES),
        keys=keys,
        read=rows.__getitem__,
        names=classes,
        classes=classes,
        # Of several types there is none; `RecordIndex` has only one for all records.
        dtype=types.pop() if len(types) == 1 else "uint8",
        nbytes=rows.nbytes,
    )


def _scan(root: str, shard_paths: Sequence[str]) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """The rows of some shards in the index's order, with each row's number in `shard_paths`."""
    numbers = numbers_by_split(shard_paths)
    with reading_index(root):
        batches = dataset.dataset(fetch_file(files.join(root, INDEX)), format="parquet").to_batches(
            columns=["split", "shard", *COLUMNS.values()],
            filter=pc.field("split").isin(sorted(numbers)),
            batch_readahead=_BATCHES_AHEAD,
            # With buffering, the columns of the whole file would be held until its end.
            fragment_scan_options=dataset.ParquetFragmentScanOptions(pre_buffer=False),
        )
        for batch in filter(len, batches):
            check_rows(root, batch)
            path_number = number_paths(batch["split"], batch["shard"], numbers)
            is_read = path_number >= 0
            yield path_number[is_read], batch if is_read.all() else batch.filter(pa.array(is_read))


def further_names(shard_paths: Sequence[str]) -> list[str]:
    """The further columns, as a table had them, that all data sets of some shards have."""
    own = set(INDEX_SCHEMA.names)
    found = [_list_columns(root) for root, _ in group_by_root(shard_paths)]
    return [name for name in found[0] if name not in own and all(name in each for each in found)]


def _list_columns(root: str) -> list[str]:
    with reading_index(root):
        return pq.read_schema(fetch_file(files.join(root, INDEX))).names


def read_column(shard_paths: Sequence[str], name: str) -> pa.ChunkedArray:
    """One column of the index, a row for each of `RecordIndex`'s records.

    Raises:
      UserError: if there is no such column.
    """
    known = ["label", "group", *further_names(shard_paths)]
    if name not in known:
        raise UserError(
            f"feeding.balance_by must name a column of the data set, got {name!r}; "
            f"{suggest(name, known)}known: {', '.join(known)}."
        )
    return read_table(shard_paths, [name])[name]


def read_table(shard_paths: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Reads columns of the index for some shards, a row for each of `RecordIndex`'s records.

    Raises:
      UserError: if a shard is missing from the index, or the index was changed since it was
        written.
    """
    tables = [_read_columns(root, paths, columns) for root, paths in group_by_root(shard_paths)]
    return pa.concat_tables(tables).select(list(columns))


def find_image(names: pa.Table, image: str) -> np.ndarray:
    """The rows of an image: int64 [n], none if it is not there.

    Args:
      names: the columns `source` and `record_id` of an index.
      image: one of its values in either.
    """
    is_it = pc.or_(pc.equal(names["source"], image), pc.equal(names["record_id"], image))
    return np.flatnonzero(is_it)


def _read_columns(root: str, shard_paths: Sequence[str], columns: Sequence[str]) -> pa.Table:
    numbers = numbers_by_split(shard_paths)
    in_splits = pc.field("split").isin(sorted(numbers))
    needed = list(dict.fromkeys([*columns, "split", "shard"]))
    check_index(root)
    with reading_index(root):
        table = pq.read_table(
            fetch_file(files.join(root, INDEX)), columns=needed, filters=in_splits
        )
    check_rows(root, table)
    path_number = number_paths(table["split"].combine_chunks(), table["shard"], numbers)
    is_read = path_number >= 0
    table, path_number = table.filter(pa.array(is_read)), path_number[is_read]
    check_all_known(np.bincount(path_number, minlength=len(shard_paths)), shard_paths, root)
    order = order_by_path(path_number)
    return table if isinstance(order, slice) else table.take(order)
