"""The index file: a row for each record, in the order of splits, shards and positions."""

import functools
import hashlib
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import INDEX, MANIFEST
from image_pipeline.components.dataset.record import BOX_COLUMNS, Column
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


# What reading a record needs of its row.
_WHOLE_NUMBERS = (
    *("shard", "record_offset", "record_length", "payload_length"),
    *("height", "width", "channels"),
)

_BUFFER_BYTES = 2**16
_INDEXED_AS = {"bytes": pa.string(), "int64": pa.int64(), "float32": pa.float64()}


def index_schema(further: Sequence[Column], has_masks: bool = False) -> pa.Schema:
    """The index of records that have these further columns; numbers are not rounded to 32 bits."""
    schema = pa.schema([*INDEX_SCHEMA, *(MASK_FIELDS if has_masks else ())])
    for column in further:
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
    """Reads columns of the index, some rows at a time."""
    with files.open_input(files.join(data_dir, INDEX)) as file:
        for batch in pq.ParquetFile(file).iter_batches(columns=list(columns)):
            yield pa.Table.from_batches([batch])


def read_shard_rows(data_dir: str, split: str, shard: int) -> pa.Table:
    """Reads one shard's rows, in the order of its records; see `INDEX_SCHEMA`."""
    with files.open_input(files.join(data_dir, INDEX)) as file:
        own = (pc.field("split") == split) & (pc.field("shard") == shard)
        return pq.read_table(file, filters=own).sort_by("record_offset")


def check_index(data_dir: str) -> None:
    """Makes sure that a data set's index is the one that its manifest names.

    The index is hashed once after each time it was written, at about a gigabyte a second: 62 bytes
    a record. A data set without a manifest is not checked.

    Raises:
      UserError: if the index or the manifest was changed.
    """
    try:
        listed = read_manifest(data_dir).files[INDEX]
    except FileNotFoundError:
        return
    try:
        path = find_index_file(data_dir)
        status = os.stat(path)
    except OSError as error:
        raise unreadable_index(data_dir, error.strerror) from error
    if (
        status.st_size != listed.bytes
        or _hash_file(path, status.st_size, status.st_mtime_ns, status.st_ino) != listed.sha256
    ):
        raise unreadable_index(data_dir, f"it is not the file that {MANIFEST} names")
    try:
        name = _find_unusable(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable_index(data_dir, error) from error
    if name is not None:
        raise unreadable_index(data_dir, f"its column {name} must have a whole number in each row")


def _find_unusable(path: str) -> str | None:
    """A column of places or sizes that is missing, of another type, or has an empty cell.

    Raises:
      pa.ArrowException, OSError: if the file is damaged.
    """
    with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES) as parquet:
        schema, groups = parquet.schema_arrow, range(parquet.num_row_groups)
        for group in groups:
            # pyarrow ends the process where sizes lie, unless it finds that as it begins to read.
            next(parquet.iter_batches(1, [group], [*_WHOLE_NUMBERS, "split"]), None)
        for name in _WHOLE_NUMBERS:
            number = schema.get_field_index(name)
            if number < 0 or not pa.types.is_integer(schema.field(number).type):
                return name
            # Other fields are flat or come later, so that columns are numbered as fields are.
            chunks = (parquet.metadata.row_group(group).column(number) for group in groups)
            if any(c.statistics and c.statistics.null_count for c in chunks):
                return name
    return None


def find_index_file(data_dir: str) -> str:
    """The path of the index on this machine: for a data set in a store, of a copy."""
    return fetch_file(files.join(data_dir, INDEX))


def unreadable_index(data_dir: str, why: object) -> UserError:
    """The error for an index that cannot be relied on."""
    return UserError(
        f"{files.join(data_dir, INDEX)!r} was changed since ingest wrote it ({why}), so no record "
        f"can be found by it; `image-pipeline verify {data_dir}` lists all damage. Restore it "
        "from a copy, or run ingest again."
    )


@functools.lru_cache(maxsize=256)
def _hash_file(path: str, *state: int) -> str:
    """SHA-256 of a file; `state` is its size, modification time and inode, for the cache."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
