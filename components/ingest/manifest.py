"""The manifest: what a data set holds. It is written last, so its presence means the set is whole.

`manifest.json` has a checksum of itself (see `components.dataset.sealed`), and neither times nor a
machine's paths: the same input, options and seed give the same bytes. `index.parquet` has a row for
every record, in the order of splits, shards and positions.
"""

import collections
import functools
import hashlib
import io
import json
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.sealed import INDEX as INDEX
from image_pipeline.components.dataset.sealed import MANIFEST as MANIFEST
from image_pipeline.components.dataset.sealed import read_manifest as read_manifest
from image_pipeline.components.dataset.sealed import seal
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.books import BOOKS, CONFLICTING_LABEL
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.partition import ShardTask
from image_pipeline.components.ingest.shards import INDEX_SCHEMA, WrittenShard, read_index
from image_pipeline.components.threads import call_together, map_in_order

FORMAT_VERSION = 1
FINISHED = "finished.json"  # In the working folder: the manifest, and that this run wrote it.
QUARANTINE = "quarantine.jsonl"
DUPLICATES = "duplicates.jsonl"
NEAR_DUPLICATES = "near_duplicates.jsonl"  # only with the option near_duplicates
SKIPPED = "skipped.jsonl"  # only if a file was skipped


def write_manifest(
    written: Sequence[WrittenShard], work_dir: str, output_dir: str, options: IngestOptions
) -> dict:
    """Checks that nothing was lost, then writes the index, the lists and the manifest.

    Args:
      written: every shard, in any order.
      work_dir: the working folder.
      output_dir: where the shards are.
      options: of ingest.

    Returns:
      The manifest.

    Raises:
      RuntimeError: if a shard or a record was lost on the way.
    """
    shards = sorted(written, key=lambda shard: shard.task.number)
    names = [QUARANTINE, DUPLICATES]
    names += [NEAR_DUPLICATES] if options.near_duplicates is not None else []
    books, index, _, *lists = call_together(
        lambda: _read_books(work_dir),
        lambda: _write_index(shards, output_dir),
        lambda: _copy_quarantined(work_dir, output_dir),
        *(functools.partial(_copy, name, work_dir, output_dir) for name in names),
    )
    check_books(books, shards)
    if books["skipped"]:
        names.append(SKIPPED)
        lists.append(_copy(SKIPPED, work_dir, output_dir))
    manifest = seal(
        {
            "format_version": FORMAT_VERSION,
            **books,
            "splits": _describe_splits(shards, options),
            "files": {INDEX: index, **dict(zip(names, lists, strict=True))},
            "options": options.stored_form(),
        }
    )
    content = json.dumps(manifest, indent=1).encode() + b"\n"
    call_together(
        lambda: files.write_file(files.join(output_dir, MANIFEST), content),
        lambda: files.write_file(files.join(work_dir, FINISHED), content),
    )
    return manifest


def _read_books(work_dir: str) -> dict:
    """Reads the plan's counts, which an earlier run's are not: `start_counts` deletes those."""
    try:
        return json.loads(files.read_file(files.join(work_dir, BOOKS)))
    except FileNotFoundError as error:
        raise RuntimeError("Stage Plan lost the list of chunks: 1 in, 0 out.") from error


def start_output(tasks: Sequence[ShardTask], output_dir: str) -> Sequence[ShardTask]:
    """Makes sure that the output passes for whole only when it is: called before the first shard.

    The manifest of an earlier run goes, and so does what this run may not overwrite.
    """
    old = [files.join(output_dir, name) for name in (MANIFEST, NEAR_DUPLICATES, SKIPPED)]
    _, found = call_together(
        lambda: files.delete(*old), lambda: files.list_files(output_dir, "Split-*/*")
    )
    kept = {files.join(output_dir, task.path) for task in tasks}
    files.delete(*(path for path in found if path not in kept))
    return tasks


def read_whole_manifest(output_dir: str) -> dict:
    """Reads the manifest of a data set that a person named.

    Raises:
      UserError: if there is no whole data set, or the manifest is damaged.
    """
    try:
        return read_manifest(output_dir)
    except FileNotFoundError as error:
        what = "is not whole" if files.exists(output_dir) else "does not exist"
        raise UserError(
            f"The data set {output_dir!r} {what}: it has no {MANIFEST}; check the path, or run "
            "again what was writing it."
        ) from error


def read_shard_rows(output_dir: str, split: str, shard: int) -> pa.Table:
    """Reads one shard's rows of the index, in the order of its records; see `INDEX_SCHEMA`."""
    with files.open_input(files.join(output_dir, INDEX)) as file:
        own = (pc.field("split") == split) & (pc.field("shard") == shard)
        return pq.read_table(file, filters=own).sort_by("record_offset")


def read_lines(output_dir: str, name: str) -> list[dict]:
    """Reads one of a data set's lists: `QUARANTINE`, `DUPLICATES`, …."""
    content = files.read_file(files.join(output_dir, name))
    return [json.loads(line) for line in content.splitlines()]


def check_books(books: dict, shards: Sequence[WrittenShard]) -> None:
    """Found is all that became of files, and the shards hold what was planned."""
    numbers = [shard.task.number for shard in shards]
    total = shards[0].task.total if shards else 0
    if numbers != list(range(total)) or not total:
        raise RuntimeError(f"Stage Write lost shards: {numbers} of {total} arrived.")
    records = sum(shard.records for shard in shards)
    if records != books["written"]:
        raise RuntimeError(f"Stage Write lost records: {books['written']} in, {records} out.")
    if books["found"] != (accounted := count_accounted(books)):
        raise RuntimeError(f"The books do not balance: {books['found']} found, {accounted} known.")


def count_accounted(books: dict) -> int:
    """Files of which is known what became of them: written, duplicates, quarantined or skipped."""
    known = [books[name] for name in ("written", "duplicates", "quarantined")]
    return sum(known) + books.get("skipped", 0)  # Older data sets skipped nothing.


def _describe_splits(shards: Sequence[WrittenShard], options: IngestOptions) -> dict:
    splits = {}
    for split in options.splits:
        own = [shard for shard in shards if shard.task.split == split]
        splits[split] = {
            "records": sum(shard.records for shard in own),
            "bytes": sum(shard.size_bytes for shard in own),
            "shards": [
                {
                    "file": shard.task.path,
                    "records": shard.records,
                    "bytes": shard.size_bytes,
                    "sha256": shard.sha256,
                }
                for shard in own
            ],
        }
    return splits


def _write_index(shards: Sequence[WrittenShard], output_dir: str) -> dict:
    """Writes one row group a shard, so that few shards' rows are held."""
    paths = [shard.index_path for shard in shards]
    with files.write_atomically(files.join(output_dir, INDEX)) as file:
        described = _Described(file)
        with pq.ParquetWriter(pa.PythonFile(described, mode="w"), INDEX_SCHEMA) as writer:
            for table in map_in_order(read_index, paths, files.count_threads(output_dir), ahead=1):
                writer.write_table(table)
    return described.describe()


def _copy(name: str, source_dir: str, target_dir: str) -> dict:
    with files.write_atomically(files.join(target_dir, name)) as file:
        described = _Described(file)
        for block in files.read_blocks(files.join(source_dir, name)):
            described.write(block)
    return described.describe()


def describe_file(path: str) -> dict:
    """A file's size and checksum, as the manifest has them."""
    described = _Described(None)
    for block in files.read_blocks(path):
        described.write(block)
    return described.describe()


class _Described(io.RawIOBase):
    """Passes on what is written to a file, if there is one, and describes it."""

    def __init__(self, file: BinaryIO | None):
        """Takes the file, which stays open."""
        super().__init__()
        self._file = file
        self._digest = hashlib.sha256()
        self._size_bytes = 0

    def write(self, data: Any, /) -> int:
        """Writes all of it."""
        if self._file is not None:
            self._file.write(data)
        self._digest.update(data)
        self._size_bytes += len(data)
        return len(data)

    def writable(self) -> bool:
        """It is."""
        return True

    def describe(self) -> dict:
        """Size and checksum of what was written, as the manifest has them."""
        return {"bytes": self._size_bytes, "sha256": self._digest.hexdigest()}


def kept_copies(quarantined: Sequence[dict]) -> list[str]:
    """Names of the files in `quarantine/`, each the SHA-256 of its bytes.

    Files without bytes, and those that could not be read, have nothing to keep; those of
    conflicting labels are whole where they are.
    """
    kept = (line for line in quarantined if line["reason"] != CONFLICTING_LABEL)
    return sorted({line["sha256"] for line in kept if line["sha256"] and line["bytes"]})


def _copy_quarantined(work_dir: str, output_dir: str) -> None:
    """Copies what the list in the working folder names, and deletes what an earlier run left."""
    lines, found = call_together(
        lambda: read_lines(work_dir, QUARANTINE),
        lambda: files.list_files(output_dir, "quarantine/*"),
    )
    names = [f"quarantine/{content}" for content in kept_copies(lines)]
    copy = functools.partial(_copy, source_dir=work_dir, target_dir=output_dir)
    collections.deque(map_in_order(copy, names, files.count_threads(output_dir), ahead=1), maxlen=0)
    files.delete(*set(found) - {files.join(output_dir, name) for name in names})
