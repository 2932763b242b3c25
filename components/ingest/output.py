"""A data set's folder, from before its first shard to the manifest, which is written last."""

import collections
import functools
import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import HashedWriter, ListedFile, copy_file
from image_pipeline.components.dataset.index_file import index_schema
from image_pipeline.components.dataset.lists import Quarantined, kept_copies, read_list
from image_pipeline.components.dataset.manifest import (
    FORMAT_VERSION,
    Books,
    ListedShard,
    ListedSplit,
    Manifest,
    parse_manifest,
)
from image_pipeline.components.dataset.paths import (
    DUPLICATES,
    INDEX,
    MANIFEST,
    NEAR_DUPLICATES,
    PLAN,
    QUARANTINE,
    SKIPPED,
    in_split,
    name_copy,
)
from image_pipeline.components.ingest.books import BOOKS
from image_pipeline.components.ingest.partition import ShardTask
from image_pipeline.components.ingest.shards import WrittenShard, read_index
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.threads import call_together, map_in_order

_ALWAYS = (INDEX, QUARANTINE, DUPLICATES)


def write_manifest(
    written: Sequence[WrittenShard], work: WorkFolder, output_dir: str, options: IngestOptions
) -> Manifest:
    """Checks that nothing was lost, then writes the index, the lists and the manifest.

    Args:
      written: every shard, in any order.
      work: the working folder.
      output_dir: where the shards are.

    Returns:
      The manifest as it was written.

    Raises:
      RuntimeError: if a shard or a record was lost on the way.
      UserError: if another run has begun.
    """
    if not written:
        raise RuntimeError(
            "Stage Plan lost the list of chunks, or Stage Write all of its shards: none arrived."
        )
    shards = sorted(written, key=lambda shard: shard.task.number)
    work.check()
    books_dir = work.books_dir(shards[0].task.plan)
    books = Books(**json.loads(files.read_file(files.join(books_dir, BOOKS))))
    check_books(books, shards)
    names = _name_lists(books)
    index, _, *lists = call_together(
        lambda: _write_index(shards, output_dir, options),
        lambda: _copy_quarantined(books_dir, work, output_dir),
        *(functools.partial(_copy, name, books_dir, output_dir) for name in names),
    )
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        books=books,
        splits=_describe_splits(shards, options),
        files={INDEX: index, **dict(zip(names, lists, strict=True))},
        options=options.stored_form(),
    )
    content = manifest.to_bytes()
    work.check()
    call_together(
        lambda: files.write_file(files.join(output_dir, MANIFEST), content),
        lambda: work.finish(content),
    )
    files.delete(files.join(output_dir, PLAN))  # The manifest has the shards' checksums.
    return parse_manifest(content)


def _name_lists(books: Books) -> list[str]:
    near = [NEAR_DUPLICATES] if books.near_duplicates is not None else []
    return [QUARANTINE, DUPLICATES, *near, *([SKIPPED] if books.skipped else [])]


def start_output(
    tasks: Sequence[ShardTask], work: WorkFolder, output_dir: str
) -> Sequence[ShardTask]:
    """Makes sure, before the first shard, that nothing of an earlier run passes for this one's.

    Deletes the manifest, what was not finished when a run was killed, and the shards, unless they
    are of this plan: an interrupted run has written them, and this one goes on after them.

    Raises:
      UserError: if another run has begun.
    """
    work.check()
    old = [files.join(output_dir, name) for name in (MANIFEST, NEAR_DUPLICATES, SKIPPED)]
    files.delete_unfinished(*old, *(files.join(output_dir, name) for name in _ALWAYS))
    plan_path, plan = files.join(output_dir, PLAN), tasks[0].plan
    _, found, noted = call_together(
        lambda: files.delete(*old),
        lambda: files.list_files(output_dir, in_split("*")),
        lambda: _read_plan(plan_path),
    )
    own = {files.join(output_dir, task.path) for task in tasks} if noted == plan else set()
    files.delete(*(path for path in found if path not in own))
    files.write_file(plan_path, plan.encode())  # Now that every shard there is of this plan.
    return tasks


def _read_plan(path: str) -> str:
    """The plan whose shards are in the output folder; "" if that is not noted."""
    try:
        return files.read_file(path).decode()
    except FileNotFoundError:
        return ""


def check_books(books: Books, shards: Sequence[WrittenShard]) -> None:
    """Checks that every file found is accounted for, and that the shards hold what was planned."""
    numbers = [shard.task.number for shard in shards]
    total = shards[0].task.total if shards else 0
    if numbers != list(range(total)) or not total:
        raise RuntimeError(f"Stage Write lost shards: {numbers} of {total} arrived.")
    records = sum(shard.records for shard in shards)
    if records != books.written:
        raise RuntimeError(f"Stage Write lost records: {books.written} in, {records} out.")
    if books.found != books.accounted:
        raise RuntimeError(
            f"The books do not balance: {books.found} found, {books.accounted} accounted for."
        )


def _describe_splits(
    shards: Sequence[WrittenShard], options: IngestOptions
) -> dict[str, ListedSplit]:
    splits = {}
    for split in options.splits:
        own = [shard for shard in shards if shard.task.split == split]
        listed = [
            ListedShard(
                file=shard.task.path,
                records=shard.records,
                bytes=shard.size_bytes,
                sha256=shard.sha256,
            )
            for shard in own
        ]
        counted = [shard.counted for shard in own]
        splits[split] = ListedSplit(
            records=sum(shard.records for shard in listed),
            bytes=sum(shard.bytes for shard in listed),
            shards=listed,
            **options.label_kind.add_up(counted, options.boxes),
        )
    return splits


def _write_index(
    shards: Sequence[WrittenShard], output_dir: str, options: IngestOptions
) -> ListedFile:
    """Writes one row group per shard, so that few shards' rows are held in memory."""
    paths = [shard.index_path for shard in shards]
    schema = index_schema(options.record_columns)
    with files.write_atomically(files.join(output_dir, INDEX)) as file:
        written = HashedWriter(file)
        with pq.ParquetWriter(pa.PythonFile(written, mode="w"), schema) as writer:
            for table in map_in_order(read_index, paths, files.count_threads(output_dir), ahead=1):
                writer.write_table(table)
    return written.describe()


def _copy(name: str, source_dir: str, target_dir: str) -> ListedFile:
    return copy_file(files.join(source_dir, name), files.join(target_dir, name))


def _copy_quarantined(books_dir: str, work: WorkFolder, output_dir: str) -> None:
    """Copies the files listed in the books, and deletes those of an earlier run."""
    lines, found = call_together(
        lambda: read_list(books_dir, Quarantined),
        lambda: files.list_files(output_dir, name_copy("*")),
    )
    names = [name_copy(content) for content in kept_copies(lines)]
    copy = functools.partial(_copy, source_dir=work.path, target_dir=output_dir)
    collections.deque(map_in_order(copy, names, files.count_threads(output_dir), ahead=1), maxlen=0)
    files.delete(*set(found) - {files.join(output_dir, name) for name in names})
