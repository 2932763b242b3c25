"""Prepares a chunk of images, in threads.

A chunk becomes three files in the working folder: `….payload`, the prepared images one after the
other, `….arrow`, a row for every source (see `prepared_rows`), and last a mark that it is done,
which names the other two, so an interrupted run continues after it. How many images a generator's
shards hold is known when they have run, so of them, rows and payloads are written in parts of
bounded size.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from image_pipeline.components import files, progress
from image_pipeline.components.archives.byte_ranges import read_ahead
from image_pipeline.components.function_version import images_version
from image_pipeline.components.generators.generator import open_generator
from image_pipeline.components.ingest.fence import check_after
from image_pipeline.components.ingest.listed import ListedChunk, read_chunk
from image_pipeline.components.ingest.prepare_source import (
    Read,
    prepare_data,
    prepare_source,
    read_pair,
)
from image_pipeline.components.ingest.prepared_rows import (
    PreparedChunk,
    count_unusable,
    find_done,
    mark_done,
    name_anew,
    name_parts,
    write_rows,
)
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.references import Chunk, ImageRef, Source, list_fields
from image_pipeline.components.sources.source_kinds import check_unchanged, kind_of
from image_pipeline.components.threads import REMOTE_THREADS, map_in_order, usable_cores

_PART_ROWS = 4096
Result = TypeVar("Result")
CODE_VERSION = 7  # Raise it when the same source and options would give other rows or payloads.


def prepare(
    listed: ListedChunk, images_dir: str, work_dir: str, options: IngestOptions
) -> PreparedChunk:
    """Prepares a chunk of the listing, see `prepare_chunk`; raises as `check_run`."""
    return prepare_chunk(read_chunk(listed, work_dir), images_dir, work_dir, options)


def prepare_chunk(
    chunk: Chunk, images_dir: str, work_dir: str, options: IngestOptions
) -> PreparedChunk:
    """Prepares a chunk's images, or what its shards yield, unless an earlier run already did.

    Args:
      chunk: the references, to images or to shards of a generator.
      images_dir: the folder, table or generator that they are of.
      work_dir: the working folder; it survives a failed run.
      options: of ingest.

    Returns:
      What was prepared.
    """
    key = name_chunk(chunk, images_dir, work_dir, options)
    done = find_done(chunk, key, work_dir)
    if done is not None and not _may_be_repaired(chunk, done):
        progress.advance(done.found, done.bad, done.skipped)
        return done
    name, place = name_anew(key), (chunk.number, chunk.is_last)
    if kind_of(images_dir).lists_images:
        source = open_source(images_dir, options)
        source = read_ahead(chunk.refs, source, options.prepare.max_file_bytes)
        results = _prepare_unchanged(chunk.refs, source, work_dir, options)
        results = check_after(results, work_dir, chunk.run)
        bad, skipped = count_unusable(write_rows(results, name, work_dir, options))
        done = PreparedChunk(*place, len(chunk.refs), bad, name, skipped, run=chunk.run)
    else:
        parts = list(_write_parts(chunk, images_dir, work_dir, name, options))
        found, bad, skipped = (sum(counts) for counts in zip(*parts, strict=True))
        shards = len(chunk.refs)
        done = PreparedChunk(*place, found, bad, name, skipped, shards, len(parts), chunk.run)
    mark_done(done, key, work_dir)
    return done


def _may_be_repaired(chunk: Chunk, done: PreparedChunk) -> bool:
    """Whether unusable files may have changed unseen: those of a table behind URIs."""
    is_seen = all(ref.annotations is None or ref.modified_ns or ref.problem for ref in chunk.refs)
    return not is_seen and done.bad > 0


def name_chunk(chunk: Chunk, images_dir: str, work_dir: str, options: IngestOptions) -> str:
    """A hash of everything that the chunk's rows and payloads depend on."""
    kept = {"prepare", "label_pattern", "group_pattern", "split_pattern", "split_names", "classes"}
    kept |= {"splits", *TableOptions.model_fields}
    newer = ("masks", "generator", "video", "in_place")
    kept |= {name for name in newer if getattr(options, name)}
    depends_on = [CODE_VERSION, options.model_dump(mode="json", include=kept)]
    depends_on += [options.near_duplicates is not None]  # Its value matters later, in the plan.
    if not files.is_local(work_dir):
        depends_on += [options.seed]  # See `write_payloads`.
    if not kind_of(images_dir).is_dated:
        depends_on += [open_source(images_dir, options).root]
    depends_on += filter(None, [images_version(images_dir)])
    depends_on += [list_fields(ref) for ref in chunk.refs]
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:32]


def _count_progress(results: Iterable[tuple[dict, bytes]]) -> Iterator[tuple[dict, bytes]]:
    """Counts prepared images as progress."""
    for row, payload in results:
        is_skipped = "is_skipped" in row
        progress.advance(bad="reason" in row and not is_skipped, skipped=is_skipped)
        yield row, payload


def count_threads(source: Source, options: IngestOptions) -> int:
    """The number of a task's threads that read."""
    is_local = files.is_local(source.root)
    return options.threads or (usable_cores() + 1 if is_local else REMOTE_THREADS)


def _write_parts(
    chunk: Chunk, images_dir: str, work_dir: str, name: str, options: IngestOptions
) -> Iterator[tuple[int, int, int]]:
    """Writes the parts; yields how many items of each there are, bad ones and skipped ones."""
    source = open_generator(images_dir, options)
    results = _count_progress(
        map_in_order(
            lambda item: prepare_source(*item, work_dir, options),
            source.items(chunk.refs),
            count_threads(source, options),
        )
    )
    rows, parts = None, 0
    while rows is None or len(rows) == _PART_ROWS:
        parts += 1
        part_name = name_parts(name, parts)[-1]
        part = check_after(itertools.islice(results, _PART_ROWS), work_dir, chunk.run)
        rows = write_rows(part, part_name, work_dir, options)
        yield len(rows), *count_unusable(rows)


def _prepare_unchanged(
    refs: Sequence[ImageRef], source: Source, work_dir: str, options: IngestOptions
) -> Iterator[tuple[dict, bytes]]:
    """Prepares sources in threads; yields the results of `prepare_data` in order.

    Fails in the end, before the chunk is done, if a file was changed.
    """

    def prepare_read(ref: ImageRef, read: Read, mask: Read | None) -> tuple[dict, bytes]:
        return prepare_data(ref, read, mask, work_dir, options)

    yield from _count_progress(map_read(prepare_read, refs, source, options))
    check_unchanged(refs)


def map_read(
    function: Callable[[ImageRef, Read, Read | None], Result],
    refs: Iterable[ImageRef],
    source: Source,
    options: IngestOptions,
) -> Iterator[Result]:
    """Applies a function to references and what `read_pair` gives of them, in threads, in order."""
    if files.is_local(source.root):
        return map_in_order(
            lambda ref: function(ref, *read_pair(ref, source, options)),
            refs,
            count_threads(source, options),
            batch=8,
        )
    # Many threads wait for the store, but few decode: a decoded image is 30 times its file's size.
    read = map_in_order(
        lambda ref: (ref, *read_pair(ref, source, options)),
        refs,
        count_threads(source, options),
        ahead=1,
    )
    return map_in_order(lambda each: function(*each), read, usable_cores() + 1, ahead=2)
