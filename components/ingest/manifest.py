"""The manifest: what a data set holds. It is written last, so its presence means the set is whole.

`manifest.json` has no times and no machine's paths: the same input, options and seed give the same
bytes. `index.parquet` has a row for every record, in the order of splits, shards and positions.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components import files
from components.errors import UserError
from components.ingest.options import IngestOptions
from components.ingest.partition import ShardTask
from components.ingest.shards import INDEX_SCHEMA, WrittenShard, read_index

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
INDEX = "index.parquet"
QUARANTINE = "quarantine.jsonl"
DUPLICATES = "duplicates.jsonl"
NEAR_DUPLICATES = "near_duplicates.jsonl"  # only with the option near_duplicates


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
    books = json.loads(files.read_file(files.join(work_dir, "books.json")))
    check_books(books, shards)
    names = [QUARANTINE, DUPLICATES]
    names += [NEAR_DUPLICATES] if options.near_duplicates is not None else []
    lists = {
        name: _copy(files.join(work_dir, name), files.join(output_dir, name)) for name in names
    }
    manifest = {
        "format_version": FORMAT_VERSION,
        **books,
        "splits": _describe_splits(shards, options),
        "files": {INDEX: _write_index(shards, output_dir), **lists},
        "options": options.stored_form(),
    }
    _copy_quarantined(work_dir, output_dir)
    with files.write_atomically(files.join(output_dir, MANIFEST)) as file:
        file.write(json.dumps(manifest, indent=1).encode() + b"\n")
    return manifest


def start_output(tasks: Sequence[ShardTask], output_dir: str) -> Sequence[ShardTask]:
    """Makes sure that the output passes for whole only when it is: called before the first shard.

    The manifest of an earlier run goes, and so does what this run may not overwrite.
    """
    files.delete(files.join(output_dir, MANIFEST), files.join(output_dir, NEAR_DUPLICATES))
    kept = {files.join(output_dir, task.path) for task in tasks}
    found = files.list_files(output_dir, "Split-*/*")
    files.delete(*(path for path in found if path not in kept))
    return tasks


def read_manifest(output_dir: str) -> dict:
    """Reads a data set's manifest.

    Raises:
      FileNotFoundError: if there is none: the data set is not whole.
    """
    return json.loads(files.read_file(files.join(output_dir, MANIFEST)))


def read_whole_manifest(output_dir: str) -> dict:
    """Reads the manifest of a data set that a person named.

    Raises:
      UserError: if there is no whole data set.
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
    """Reads one of a data set's lists: `QUARANTINE` or `DUPLICATES`."""
    content = files.read_file(files.join(output_dir, name))
    return [json.loads(line) for line in content.splitlines()]


def check_books(books: dict, shards: Sequence[WrittenShard]) -> None:
    """Found = written + duplicates + quarantined, and the shards hold what was planned."""
    numbers = [shard.task.number for shard in shards]
    total = shards[0].task.total if shards else 0
    if numbers != list(range(total)) or not total:
        raise RuntimeError(f"Stage Write lost shards: {numbers} of {total} arrived.")
    records = sum(shard.records for shard in shards)
    if records != books["written"]:
        raise RuntimeError(f"Stage Write lost records: {books['written']} in, {records} out.")
    accounted = books["written"] + books["duplicates"] + books["quarantined"]
    if books["found"] != accounted:
        raise RuntimeError(f"The books do not balance: {books['found']} found, {accounted} known.")


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
    """Writes one row group a shard, so that no more than one shard's rows are held."""
    path = files.join(output_dir, INDEX)
    with (
        files.write_atomically(path) as file,
        pq.ParquetWriter(pa.PythonFile(file, mode="w"), INDEX_SCHEMA) as writer,
    ):
        for shard in shards:
            writer.write_table(read_index(shard.index_path))
    return describe_file(path)


def _copy(source: str, target: str) -> dict:
    with files.write_atomically(target) as file:
        return _describe(_write_blocks(files.read_blocks(source), file))


def _write_blocks(blocks: Iterable[bytes], file: BinaryIO) -> Iterator[bytes]:
    for block in blocks:
        file.write(block)
        yield block


def describe_file(path: str) -> dict:
    """A file's size and checksum, as the manifest has them."""
    return _describe(files.read_blocks(path))


def _describe(blocks: Iterable[bytes]) -> dict:
    digest, size_bytes = hashlib.sha256(), 0
    for block in blocks:
        digest.update(block)
        size_bytes += len(block)
    return {"bytes": size_bytes, "sha256": digest.hexdigest()}


def kept_copies(quarantined: Sequence[dict]) -> list[str]:
    """Names of the files in `quarantine/`, each the SHA-256 of its bytes.

    Files without bytes, and those that could not be read, have nothing to keep.
    """
    return sorted({line["sha256"] for line in quarantined if line["sha256"] and line["bytes"]})


def _copy_quarantined(work_dir: str, output_dir: str) -> None:
    kept = kept_copies(read_lines(output_dir, QUARANTINE))
    for content in kept:
        _copy(
            files.join(work_dir, "quarantine", content),
            files.join(output_dir, "quarantine", content),
        )
    for path in files.list_files(output_dir, "quarantine/*"):
        if path.rpartition("/")[2] not in kept:  # of an earlier run, and since repaired
            files.delete(path)
