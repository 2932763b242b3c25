"""Verifies one shard: its checksums, its records, and what the index says of them.

The index knows where each record begins, so the check continues after a damaged one.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import (
    find_empty_entry,
    index_name,
    read_shard_rows,
)
from image_pipeline.components.dataset.index_rows import ROW, list_classes, make_rows, seal_shard
from image_pipeline.components.dataset.manifest import ListedShard, Manifest
from image_pipeline.components.dataset.paths import INDEX, ROWS
from image_pipeline.components.dataset.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    CorruptRecord,
    read_records,
    unframe,
)
from image_pipeline.components.errors import LACKING

_BLOCK_BYTES = 2**20
CHANGED = "changed: its SHA-256 is not the one it was written with"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as ingest wrote it.

    Attributes:
      file: path below the data set's folder.
      problem: what is wrong with it.
      record: number of the record in its shard, from 0; None if it is about the whole file.
      source: path of the record's source image, if known.
      offset: of the record's first byte in the shard.
    """

    file: str
    problem: str
    record: int | None = None
    source: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        """Reads as one log line."""
        where = "" if self.record is None else f" record {self.record}"
        where += "" if self.source is None else f" ({self.source})"
        where += "" if self.offset is None else f" at byte {self.offset}"
        return f"{self.file}{where}: {self.problem}"


def check_shard(
    split: str,
    number: int,
    shard: ListedShard,
    output_dir: str,
    has_index: bool,
    manifest: Manifest,
    first_row: int | None = None,
) -> list[Finding]:
    """Reads a shard once; says what is wrong, in the order of the records.

    Args:
      split: the shard's split.
      number: the shard's number in its split.
      shard: its entry in the manifest.
      output_dir: the data set's folder.
      has_index: whether the index can be relied on.
      manifest: says what a record has.
      first_row: of the shard in the index in rows; None if that cannot be relied on.
    """
    try:
        rows = read_shard_rows(output_dir, split, number) if has_index else None
        if rows is not None:
            rows.validate(full=True)  # pyarrow reads any bytes as text.
        trouble = None if rows is None else find_empty_entry(rows) or _check_places(shard, rows)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise_shortage(error)
        rows, trouble = None, f"its rows cannot be read: {error}"
    findings = [Finding(INDEX, f"{shard.file}: {trouble}")] if trouble else []
    try:
        with files.open_input(files.join(output_dir, shard.file)) as raw:
            file = _HashedFile(raw)
            if rows is None or trouble:
                records = list(_check_unindexed(shard, file))
            else:
                records = list(_check_indexed(shard, file, rows, manifest))
    except OSError as error:
        return [*findings, Finding(shard.file, explain_unreadable(error))]
    # Records may be sound, and still not be the ones that ingest wrote.
    if not records and file.digest.hexdigest() != shard.sha256:
        records = [Finding(shard.file, CHANGED)]
    # Where the index agrees with the records, its other form must agree with it.
    if not (findings or records) and rows is not None and first_row is not None:
        start, expected = first_row * ROW.itemsize, make_rows(rows, list_classes(manifest.books))
        content = seal_shard(expected, shard.sha256).tobytes()
        if files.read_file(files.join(output_dir, ROWS), start, start + len(content)) != content:
            return [Finding(ROWS, f"{shard.file}: its rows are not those of {INDEX}")]
    return findings + records


class _HashedFile:
    """Hashes what is read, so that a shard is read only once."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Reads at most `size` bytes."""
        block = self._file.read(size)
        self.digest.update(block)
        return block


def _check_places(shard: ListedShard, rows: pa.Table) -> str | None:
    """Checks that the index's records follow one another from the file's first byte to its last."""
    if len(rows) != shard.records:
        return f"it has {len(rows)} rows, but the manifest counts {shard.records} records"
    offsets, lengths = (rows[name].to_numpy() for name in ("record_offset", "record_length"))
    ends = np.cumsum(lengths + (HEADER_BYTES + FOOTER_BYTES))
    wrong = np.flatnonzero(offsets != np.concatenate([[0], ends[:-1]]))
    if len(wrong):
        return f"the offset of record {wrong[0]} is not where the record before it ends"
    return None if ends[-1] == shard.bytes else f"its records end at byte {ends[-1]}"


def _check_indexed(
    shard: ListedShard, file: _HashedFile, rows: pa.Table, manifest: Manifest
) -> Iterator[Finding]:
    """Checks each record at the place that the index gives, whatever is wrong with others."""
    number = 0
    columns, names = manifest.columns, manifest.class_names
    problem: str | None
    for batch in rows.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            framed = file.read(row["record_length"] + HEADER_BYTES + FOOTER_BYTES)
            is_cut = len(framed) < row["record_length"] + HEADER_BYTES + FOOTER_BYTES
            if is_cut:
                later = shard.records - number - 1
                problem = f"cut off: the file ends in it, and {later} records after it are missing"
            else:
                problem = _check_record(framed, row, columns, names)
            if problem:
                yield Finding(shard.file, problem, number, row.get("source"), row["record_offset"])
            if is_cut:
                return
            number += 1
    surplus = 0
    while block := file.read(_BLOCK_BYTES):
        surplus += len(block)
    if surplus:
        yield Finding(shard.file, f"{surplus} bytes after its last record")


def _check_record(
    framed: bytes, row: dict, columns: Sequence[record.Column], class_names: Sequence[str]
) -> str | None:
    """Says what is wrong with a record: its checksums, its format or its index row."""
    try:
        data = unframe(framed)
        values = record.decode_example(data, columns)
    except CorruptRecord as error:
        return str(error)
    except ValueError as error:
        return f"not a record of this format: {error}"
    content = bytes.fromhex(values[record.SHA256].decode())
    own_id = record.make_record_id(content, values[record.FILENAME])
    if values[record.SOURCE_ID] != own_id.hex().encode():
        return f"{record.SOURCE_ID} does not follow from its content and path"
    image = values[record.IMAGE]
    indexed = {
        "payload_length": len(image),
        "payload_offset": row["record_offset"] + HEADER_BYTES + len(data) - len(image),
        "record_id": values[record.SOURCE_ID].decode(),
        "label": values[record.LABEL].decode(),
        "format": values[record.FORMAT].decode(),
        "height": values[record.HEIGHT],
        "width": values[record.WIDTH],
        "channels": values[record.CHANNELS],
        "source": values[record.FILENAME].decode(errors="backslashreplace"),
    }
    wrong = [name for name, value in indexed.items() if row.get(name) != value]
    further = set(columns) - {*record.COLUMNS, *record.MASK_COLUMNS, record.CLASS_ID_COLUMN}
    in_order = [column for column in columns if column in further]
    wrong += [c.key for c in in_order if not _is_same(values[c.key], row.get(index_name(c)))]
    if record.MASK in values and len(values[record.MASK]) != row.get("mask_length"):
        wrong += ["mask_length"]
    if record.LABEL_ID in values:
        id_ = values[record.LABEL_ID]
        name = class_names[id_] if 0 <= id_ < len(class_names) else None
        wrong += [record.LABEL_ID] * (name != row.get("label"))
    return f"the index says otherwise: {', '.join(wrong)}" if wrong else None


def _is_same(stored: Any, indexed: Any) -> bool:
    """Whether a record's value is what the index has of it: text, or a number in 64 bits."""
    if isinstance(stored, list):
        are_lists = isinstance(indexed, list) and len(stored) == len(indexed)
        return are_lists and all(map(_is_same, stored, indexed))
    if isinstance(stored, float):
        return np.array_equal(np.float32(stored), np.float32(indexed), equal_nan=True)
    return (stored.decode() if isinstance(stored, bytes) else stored) == indexed


def _check_unindexed(shard: ListedShard, file: _HashedFile) -> Iterator[Finding]:
    """Without an index, only the checksums are left, and only up to the first damage."""
    number = offset = 0
    try:
        for data in read_records(file):
            number += 1
            offset += HEADER_BYTES + len(data) + FOOTER_BYTES
    except CorruptRecord as error:
        problem = f"{error.problem}; what comes after it cannot be found without the index"
        yield Finding(shard.file, problem, number, offset=offset)
    else:
        if number != shard.records:
            yield Finding(shard.file, f"{number} records, but the manifest says {shard.records}")


def explain_unreadable(error: OSError) -> str:
    """What is wrong with a file that cannot be opened or read; see `raise_shortage`."""
    raise_shortage(error)
    if isinstance(error, FileNotFoundError):
        return "missing"
    return f"cannot be read: {error.strerror or error}"


def raise_shortage(error: Exception) -> None:
    """Raises an error that comes from what this process may have, and says nothing of a file."""
    if getattr(error, "errno", None) in LACKING:
        raise error
