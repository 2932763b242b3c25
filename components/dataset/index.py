"""A data set's index in memory: where each record is, and what it is, column by column.

54 bytes a record: ten million take 0.54 GB.
"""

import binascii
import dataclasses
from collections.abc import Iterator, Sequence
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
    find_index_file,
    reading_index,
    unreadable_index,
)
from image_pipeline.components.dataset.paths import (
    INDEX,
    check_all_known,
    group_by_root,
    match_path,
    number_paths,
    numbers_by_split,
    order_by_path,
    parse_path,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest

# Columns that are kept unchanged, with their types in memory.
_NUMBERS = {
    "record_offset": np.int64,
    "record_length": np.int64,
    "payload_length": np.int32,
    "height": np.int32,
    "width": np.int32,
    "channels": np.uint8,
}
_COLUMNS = ("split", "shard", "record_id", "label", "format", *_NUMBERS)
_RAW_FORMATS = pa.array([name.decode() for name in record.RAW_FORMATS])
_ID_DIGITS = 32
# Row groups that are read ahead while one is processed; each is held as text.
_BATCHES_AHEAD = 4
# Attributes of `RecordIndex` with a row per record, all but the label.
_ARRAYS = (
    *("shard", "offset", "length", "image_length"),
    *("height", "width", "channels", "is_raw", "record_id"),
)


class IndexRows(NamedTuple):
    """What the index says of some records, a value a record: types as in `RecordIndex`."""

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


@dataclasses.dataclass(frozen=True)
class RecordIndex:
    """The records of some shards, in the order of the shards and of their positions in them.

    Attributes:
      roots: the data sets' folders, sorted.
      shard_paths: the shards, by data set and sorted.
      shard: int32 [records], number of the record's shard in `shard_paths`.
      offset: int64 [records], position of the record's length field in its shard, in bytes.
      length: int64 [records], size of the serialized tf.train.Example, in bytes.
      image_length: int32 [records], size of the stored image, which ends the example, in bytes.
      height: int32 [records], of the stored image, in pixels.
      width: int32 [records].
      channels: uint8 [records].
      is_raw: bool [records], whether the image is stored as pixels.
      record_id: uint8 [records, 16].
      label: int32 [records], number of the record's class in `classes`.
      classes: the classes' names, sorted.
      dtype: of the values of images that are stored as pixels.
    """

    roots: tuple[str, ...]
    shard_paths: tuple[str, ...]
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
    classes: tuple[str, ...]
    dtype: record.PixelType = "uint8"

    def __len__(self) -> int:
        """The number of records."""
        return len(self.shard)

    @property
    def nbytes(self) -> int:
        """The columns' size in memory, in bytes."""
        return sum(getattr(self, name).nbytes for name in _ARRAYS) + self.label.nbytes

    @property
    def data_set(self) -> np.ndarray:
        """int32 [records], number of the record's data set in `roots`."""
        of_shard = [self.roots.index(parse_path(path)["root"]) for path in self.shard_paths]
        return np.array(of_shard, np.int32)[self.shard]

    def take(self, rows: np.ndarray) -> IndexRows:
        """Reads what the index says of some records.

        Args:
          rows: int64 [n], their rows, in any order, also repeatedly.

        Returns:
          The columns of just these rows, in their order.
        """
        return IndexRows(*(getattr(self, name)[rows] for name in IndexRows._fields))

    def describe(self, row: int) -> str:
        """Names a record for a message: its shard, its number there and its source."""
        shard = self.shard[row]
        number = row - int(np.searchsorted(self.shard, shard))
        return f"record {number} of {self.shard_paths[shard]} (source {self._source(row)!r})"

    def _source(self, row: int) -> str:
        table = read_table(self.shard_paths, ["source"])
        return table["source"][row].as_py()


def is_indexed(shard_paths: Sequence[str], in_stores: bool = False) -> bool:
    """Tells whether all files are shards of data sets that have an index.

    Args:
      shard_paths: the shards; each belongs to the data set whose folder it is in.
      in_stores: whether data sets in stores count. Each record that is read there is a request, so
        for training only those on local disks do.
    """
    matches = [match_path(path) for path in shard_paths]
    roots = {match["root"] if match else None for match in matches}
    return bool(roots) and all(
        root is not None
        and (in_stores or files.is_local(root))
        and files.exists(files.join(root, INDEX))
        for root in roots
    )


def find_index(shard_paths: Sequence[str], in_stores: bool = False) -> RecordIndex | None:
    """`read_index`, or None for files that are not indexed, see `is_indexed`."""
    return read_index(shard_paths) if is_indexed(shard_paths, in_stores) else None


def read_index(shard_paths: Sequence[str]) -> RecordIndex:
    """Reads the index of some shards, which may be of several data sets.

    Args:
      shard_paths: see `is_indexed`; each at most once.

    Raises:
      UserError: if a shard is missing from its index, or an index was changed since it was written.
    """
    indexes = [_read_one(root, paths) for root, paths in group_by_root(shard_paths)]
    if len(indexes) == 1:
        return indexes[0]
    classes = tuple(sorted({name for index in indexes for name in index.classes}))
    first_shards = np.cumsum([0, *(len(index.shard_paths) for index in indexes)])
    columns = {
        name: np.concatenate([getattr(index, name) for index in indexes]) for name in _ARRAYS
    }
    columns["shard"] += np.repeat(first_shards[:-1], [len(index) for index in indexes])
    return RecordIndex(
        roots=tuple(root for index in indexes for root in index.roots),
        shard_paths=tuple(path for index in indexes for path in index.shard_paths),
        label=np.concatenate([_renumber(index, classes) for index in indexes]),
        classes=classes,
        dtype=_common_type(indexes),
        **columns,
    )


def _common_type(indexes: Sequence[RecordIndex]) -> record.PixelType:
    """The type of all data sets' values."""
    by_type = {index.dtype: index.roots[0] for index in indexes}
    if len(by_type) > 1:
        named = " and ".join(f"{dtype} ({root})" for dtype, root in sorted(by_type.items()))
        raise UserError(
            f"data sets that are read together must have values of one type, got {named}; ingest "
            "them with the same ingest.prepare.dtype."
        )
    return next(iter(by_type))


def _renumber(index: RecordIndex, classes: tuple[str, ...]) -> np.ndarray:
    """The labels as positions in `classes`, which include all of the index's classes."""
    return np.array([classes.index(name) for name in index.classes], np.int32)[index.label]


def _read_one(root: str, paths: tuple[str, ...]) -> RecordIndex:
    """Reads the index of one data set.

    Row group by row group, so that at most one is held as text: ten million records take a few
    seconds, and hardly more memory than their columns.
    """
    columns: dict[str, list[np.ndarray]] = {name: [] for name in _ARRAYS}
    labels, formats = [], set[str]()
    check_index(root)
    for path_number, rows in _scan(root, paths):
        try:
            held = _hold_columns(path_number, rows)
        except ValueError as error:  # An id's digits are not hexadecimal.
            raise unreadable_index(root, error) from error
        for name, values in held.items():
            columns[name].append(values)
        labels.append(rows["label"].dictionary_encode())
        formats |= set(pc.unique(rows["format"]).to_pylist())
    # One column after the other, so that only one exists twice at a time.
    joined = {name: _join(columns.pop(name)) for name in list(columns)}
    check_all_known(joined["shard"], paths, root)
    label, classes = _number_classes(labels)
    order = order_by_path(joined["shard"])
    return RecordIndex(
        roots=(root,),
        shard_paths=paths,
        label=label[order],
        classes=classes,
        dtype=_find_type(formats),
        **{name: values[order] for name, values in joined.items()},
    )


def _find_type(formats: set[str]) -> record.PixelType:
    """The type of a data set's values; `RecordIndex` has only one for all records."""
    found = {record.RAW_FORMATS.get(name.encode(), "uint8") for name in formats}
    return next(iter(found)) if len(found) == 1 else "uint8"


def _hold_columns(path_number: np.ndarray, rows: pa.RecordBatch) -> dict[str, np.ndarray]:
    """The columns of some rows as they are kept in memory, all but the label."""
    numbers = {name: rows[name].to_numpy().astype(dtype) for name, dtype in _NUMBERS.items()}
    return {
        "shard": path_number,
        "offset": numbers.pop("record_offset"),
        "length": numbers.pop("record_length"),
        "image_length": numbers.pop("payload_length"),
        **numbers,
        "is_raw": pc.is_in(rows["format"], _RAW_FORMATS).to_numpy(zero_copy_only=False),
        "record_id": _unhex(rows["record_id"]),
    }


def _scan(root: str, shard_paths: Sequence[str]) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """The rows of some shards in the index's order, with each row's number in `shard_paths`."""
    numbers = numbers_by_split(shard_paths)
    for batch in _read_batches(root, sorted(numbers)):
        if len(batch):
            path_number = number_paths(batch["split"], batch["shard"], numbers)
            is_read = path_number >= 0
            yield path_number[is_read], batch if is_read.all() else batch.filter(pa.array(is_read))


def _read_batches(root: str, splits: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with reading_index(root):
        batches = dataset.dataset(find_index_file(root), format="parquet").to_batches(
            columns=list(_COLUMNS),
            filter=pc.field("split").isin(splits),
            batch_readahead=_BATCHES_AHEAD,
            # With buffering, the columns of the whole file would be held until its end.
            fragment_scan_options=dataset.ParquetFragmentScanOptions(pre_buffer=False),
        )
        for batch in batches:
            yield check_rows(root, batch)


def _join(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def _number_classes(labels: list[pa.DictionaryArray]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Each row's place among the sorted names of the classes (int32 [rows]), and these names."""
    unified = pa.chunked_array(labels).unify_dictionaries()
    names = unified.chunk(0).dictionary.to_pylist()
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(names), np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in unified.chunks])
    return rank[codes], tuple(names[i] for i in order)


def further_names(shard_paths: Sequence[str]) -> list[str]:
    """The further columns, as a table had them, that all data sets of some shards have."""
    own = set(INDEX_SCHEMA.names)
    found = [_list_columns(root) for root, _ in group_by_root(shard_paths)]
    return [name for name in found[0] if name not in own and all(name in each for each in found)]


def _list_columns(root: str) -> list[str]:
    with reading_index(root):
        return pq.read_schema(find_index_file(root)).names


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


def _read_columns(root: str, shard_paths: Sequence[str], columns: Sequence[str]) -> pa.Table:
    numbers = numbers_by_split(shard_paths)
    in_splits = pc.field("split").isin(sorted(numbers))
    needed = list(dict.fromkeys([*columns, "split", "shard"]))
    check_index(root)
    with reading_index(root):
        table = pq.read_table(find_index_file(root), columns=needed, filters=in_splits)
    check_rows(root, table)
    path_number = number_paths(table["split"].combine_chunks(), table["shard"], numbers)
    is_read = path_number >= 0
    table, path_number = table.filter(pa.array(is_read)), path_number[is_read]
    check_all_known(path_number, shard_paths, root)
    order = order_by_path(path_number)
    return table if isinstance(order, slice) else table.take(order)


def _unhex(digits: pa.StringArray) -> np.ndarray:
    """32 hexadecimal digits a row to uint8 [rows, 16], without a Python object per row."""
    _, offsets, text = digits.buffers()
    ends = np.frombuffer(offsets, np.int32)[digits.offset : digits.offset + len(digits) + 1]
    if (np.diff(ends) != _ID_DIGITS).any():
        raise ValueError(f"its column record_id must have {_ID_DIGITS} digits in each row")
    binary = binascii.unhexlify(memoryview(text)[ends[0] : ends[-1]])
    return np.frombuffer(binary, np.uint8).reshape(len(digits), 16)
