"""The index file: a row for each record, in the order of splits, shards and positions."""

import contextlib
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import Manifest, read_manifest
from image_pipeline.components.dataset.paths import INDEX, MANIFEST, is_kept
from image_pipeline.components.dataset.record import BOX_COLUMNS, MASK_COLUMN, Column, further_of
from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, HEADER_BYTES
from image_pipeline.components.errors import UserError
from image_pipeline.components.trees import fetch_file

INDEX_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("shard", pa.int32()),  # number within the split
        ("record_offset", pa.int64()),  # in the shard, of the record's length field
        ("record_length", pa.int64()),  # of the serialized tf.train.Example
        ("payload_offset", pa.int64()),  # in the shard, of the stored image's first byte
        ("payload_length", pa.int64()),
        ("record_id", pa.string()),
        ("label", pa.string()),
        ("group", pa.string()),
        ("format", pa.string()),
        ("height", pa.int32()),  # of the stored image, in pixels
        ("width", pa.int32()),
        ("channels", pa.int32()),
        ("source", pa.string()),  # path below the images folder
        ("source_format", pa.string()),
        ("source_bytes", pa.int64()),
        ("source_height", pa.int32()),
        ("source_width", pa.int32()),
        ("orientation", pa.int32()),  # EXIF's, 1 to 8, as it was in the source
        ("notes", pa.list_(pa.string())),
    ]
)


MASK_FIELDS = (
    pa.field("mask_source", pa.string()),  # path below the images folder
    pa.field("mask_length", pa.int32()),  # of the stored mask, in bytes
    pa.field("mask_ids", pa.list_(pa.int32())),  # class ids that occur in it
    pa.field("mask_pixels", pa.list_(pa.int64())),  # how many pixels each of them has
)
"""Of images with masks."""


# Nothing else is unknown of any image.
_LOCATED = ("split", "shard", "record_offset", "record_length", "payload_length")
_MAY_BE_EMPTY = {"group"}

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_BUFFER_BYTES = 2**16
_INDEXED_AS = {"bytes": pa.string(), "int64": pa.int64(), "float32": pa.float64()}


def index_schema(columns: Sequence[Column]) -> pa.Schema:
    """The index of records that have these columns; numbers are not rounded to 32 bits."""
    schema = pa.schema([*INDEX_SCHEMA, *(MASK_FIELDS if MASK_COLUMN in columns else ())])
    for column in further_of(columns):
        type_ = _INDEXED_AS[column.dtype]
        schema = schema.append(
            pa.field(index_name(column), pa.list_(type_) if column.is_list else type_)
        )
    return schema


def index_name(column: Column) -> str:
    """What the index calls a further column: `tags` for `image/tags`, a table's as it is."""
    name = column.key.rpartition("/")[2]
    return f"box_{name}" if column in BOX_COLUMNS else name


def scan_index(data_dir: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Reads columns of the index, some rows at a time.

    Raises:
      UserError: if the index was changed since it was written; in a store, only what cannot be read
        is named, as it would have to be read twice.
    """
    if files.is_local(data_dir):
        check_index(data_dir)
    with reading_index(data_dir), files.open_input(files.join(data_dir, INDEX)) as file:
        for batch in pq.ParquetFile(file).iter_batches(columns=list(columns)):
            yield check_rows(data_dir, pa.Table.from_batches([batch]))


def read_shard_rows(data_dir: str, split: str, shard: int) -> pa.Table:
    """Reads one shard's rows as they are, in the order of its records; see `INDEX_SCHEMA`."""
    with files.open_input(files.join(data_dir, INDEX)) as file:
        own = (pc.field("split") == split) & (pc.field("shard") == shard)
        return pq.read_table(file, filters=own).sort_by("record_offset")


def check_index(data_dir: str) -> None:
    """Makes sure that a data set's index is the one that its manifest names.

    The index is hashed once after each time it was written, at about a gigabyte a second: 62 bytes
    a record; and the places that it says must be those of the shards' records, one after the other.
    A data set without a manifest is not checked.

    Raises:
      UserError: if the index or the manifest was changed.
    """
    try:
        manifest = read_manifest(data_dir)
    except FileNotFoundError:
        return
    listed = manifest.files.get(INDEX)
    with reading_index(data_dir):
        path = fetch_file(files.join(data_dir, INDEX))
        status = os.stat(path)
        state = path, status.st_size, status.st_mtime_ns, status.st_ino
        if listed is None or status.st_size != listed.bytes or _hash_file(*state) != listed.sha256:
            raise unreadable_index(data_dir, f"it is not the file that {MANIFEST} names")
        problem = find_problem(path, manifest)
    if problem:
        raise unreadable_index(data_dir, problem)


def find_problem(path: str, manifest: Manifest) -> str | None:
    """Says what of an index is not as ingest writes it, apart from the labels' columns.

    Returns:
      A column that is missing or of another type, or the first shard whose records are not where
      the index has them; None if all is right.

    Raises:
      pa.ArrowException, OSError: if it cannot be read.
    """
    shards = tuple(
        _Shard(split, number, shard.records, shard.bytes)
        for split, number, shard in manifest.list_shards()
        if shard.records
    )
    status = os.stat(path)
    state = status.st_size, status.st_mtime_ns, status.st_ino
    schema = index_schema(manifest.columns)
    return _find_other_type(schema, path, *state) or _find_misplaced(shards, path, *state)


def check_rows(data_dir: str, rows: Rows) -> Rows:
    """Rows of an index, if they are what ingest writes: pyarrow itself reads any bytes as text.

    Raises:
      UserError: if they are not.
    """
    with reading_index(data_dir):
        rows.validate(full=True)
    for name in INDEX_SCHEMA.names:
        if name in rows.schema.names and name not in _MAY_BE_EMPTY and rows[name].null_count:
            raise unreadable_index(data_dir, f"its column {name} must have a value in each row")
    if problem := find_empty_entry(rows):
        raise unreadable_index(data_dir, problem)
    return rows


def find_empty_entry(rows: pa.Table | pa.RecordBatch) -> str | None:
    """What is wrong with a list in some rows of an index that lacks one of its values, if any."""
    lists = [field.name for field in (*INDEX_SCHEMA, *MASK_FIELDS) if pa.types.is_list(field.type)]
    for name in lists:
        if name in rows.schema.names and pc.list_flatten(rows[name]).null_count:
            return f"its column {name} has an empty entry"
    return None


@contextlib.contextmanager
def reading_index(data_dir: str, name: str = INDEX) -> Iterator[None]:
    """Says of what pyarrow or the system raise which index cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise unreadable_index(data_dir, getattr(error, "strerror", None) or error, name) from error


@functools.lru_cache(maxsize=256)
def _find_other_type(schema: pa.Schema, path: str, *state: int) -> str | None:
    """Names a column that is missing, or of another type; `state` is as `_hash_file`'s."""
    with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES) as parquet:
        for field in schema:
            number = parquet.schema_arrow.get_field_index(field.name)
            if number < 0:
                return f"it must have one column {field.name}"
            if (type_ := parquet.schema_arrow.field(number).type) != field.type:
                return f"its column {field.name} must be of the type {field.type}, not {type_}"
        for group in range(parquet.num_row_groups):
            # pyarrow ends the process where sizes lie, unless it finds that as it begins to read.
            next(parquet.iter_batches(1, [group], schema.names), None)
    return None


class _Shard(NamedTuple):
    """A shard that has records: its split, its number in it, how many they are, and its size."""

    split: str
    shard: int
    records: int
    bytes: int


@functools.lru_cache(maxsize=256)
def _find_misplaced(shards: tuple[_Shard, ...], path: str, *state: int) -> str | None:
    """In which shard the index has other offsets than records can have; None if in none.

    Records are one after the other, shard by shard.

    Args:
      shards: as the manifest lists them, in its order.
      path: the index; its columns have the right types.
      *state: its size, modification time and inode, for the cache.
    """
    first_rows = np.cumsum([0, *(shard.records for shard in shards)])
    records, row, end = int(first_rows[-1]), 0, 0
    bytes_of = np.array([shard.bytes for shard in shards], np.int64)
    number_of = np.array([shard.shard for shard in shards], np.int64)
    # As bytes: what is not UTF-8 can be compared as well.
    names = [shard.split.encode(errors="surrogatepass") for shard in shards]
    codes = {name: code for code, name in enumerate(names)}
    code_of = np.array([codes[name] for name in names], np.int64)
    with pq.ParquetFile(path, read_dictionary=["split"]) as parquet:
        for batch in parquet.iter_batches(columns=list(_LOCATED)):
            if row + len(batch) > records:
                row = -1
                break
            rows = np.arange(row, row + len(batch))
            of = np.searchsorted(first_rows, rows, "right") - 1  # the shard of each
            offset, length, payload = (_read_numbers(batch[name]) for name in _LOCATED[2:])
            ends = offset + length + (HEADER_BYTES + FOOTER_BYTES)
            starts = np.where(rows == first_rows[of], 0, np.concatenate([[end], ends[:-1]]))
            split = batch["split"]
            found = split.dictionary.cast(pa.binary()).to_pylist()
            found_codes = np.array([*(codes.get(name, -1) for name in found), -1], np.int64)
            is_right = found_codes[_read_numbers(split.indices)] == code_of[of]
            is_right &= _read_numbers(batch["shard"]) == number_of[of]
            is_right &= (offset == starts) & (length >= 0) & (ends <= bytes_of[of])
            is_right &= (payload >= 0) & (payload <= length)
            if not is_right.all():
                wrong = shards[of[int(np.argmin(is_right))]]
                return (
                    f"its rows of shard {wrong.shard} of {wrong.split!r} are not those of its "
                    "records"
                )
            row, end = row + len(batch), int(ends[-1])
    if row == records:
        return None
    return f"it must have {records:,} rows, one for each record of the manifest"


def _read_numbers(column: pa.Array) -> np.ndarray:
    """A column as int64; -1 for an empty cell, which no place is."""
    return column.fill_null(-1).to_numpy().astype(np.int64)


def unreadable_index(data_dir: str, why: object, name: str = INDEX) -> UserError:
    """The error for an index that cannot be relied on."""
    if is_kept(data_dir):
        return UserError(
            f"{files.join(data_dir, name)!r} was changed since it was kept ({why}); restore it "
            f"from a copy, or delete {data_dir}, which an earlier version is known by."
        )
    return UserError(
        f"{files.join(data_dir, name)!r} was changed since ingest wrote it ({why}), so no record "
        f"can be found by it; `image-pipeline verify {data_dir}` lists all damage. Restore it "
        "from a copy, or run ingest again."
    )


@functools.lru_cache(maxsize=256)
def _hash_file(path: str, *state: int) -> str:
    """SHA-256 of a file; `state` is its size, modification time and inode, for the cache."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
