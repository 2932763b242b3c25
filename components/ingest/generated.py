"""Prepares the images that Python generators make: a unit of work is some of their shards.

How many images these hold is known when they have run, so a unit's rows and payloads are written in
parts of bounded size. A unit that is interrupted is run again from its beginning.
"""

import itertools
from collections.abc import Iterator

from image_pipeline.components import progress
from image_pipeline.components.generators.generator import open_generator
from image_pipeline.components.ingest.fence import check_after
from image_pipeline.components.ingest.listed import ListedChunk, read_chunk
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.prepare import (
    count_progress,
    count_threads,
    name_chunk,
    prepare_chunk,
)
from image_pipeline.components.ingest.prepare_source import prepare_source
from image_pipeline.components.ingest.prepared_rows import (
    PreparedChunk,
    count_unusable,
    find_done,
    mark_done,
    name_anew,
    name_parts,
    write_rows,
)
from image_pipeline.components.sources.references import Chunk
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.threads import map_in_order

_PART_ROWS = 4096


def prepare(
    listed: ListedChunk, images_dir: str, work_dir: str, options: IngestOptions
) -> PreparedChunk:
    """Prepares a chunk's images, or the shards of a generator; raises as `check_run`."""
    prepares = prepare_chunk if kind_of(images_dir).lists_images else prepare_shards
    return prepares(read_chunk(listed, work_dir), images_dir, work_dir, options)


def prepare_shards(
    chunk: Chunk, images_dir: str, work_dir: str, options: IngestOptions
) -> PreparedChunk:
    """Runs the shards of a chunk and prepares what they yield, unless an earlier run already did.

    Args:
      chunk: the references to the shards.
      images_dir: the generator.
      work_dir: the working folder; it survives a failed run.
      options: of ingest.

    Returns:
      What was prepared.
    """
    name = name_chunk(chunk, images_dir, work_dir, options)
    if (done := find_done(chunk, name, work_dir)) is not None:
        progress.advance(done.found, done.bad, done.skipped)
        return done
    unique = name_anew(name)
    parts = list(_write_parts(chunk, images_dir, work_dir, unique, options))
    found, bad, skipped = (sum(counts) for counts in zip(*parts, strict=True))
    shards, place = len(chunk.refs), (chunk.number, chunk.is_last)
    done = PreparedChunk(*place, found, bad, unique, skipped, shards, len(parts), chunk.run)
    mark_done(done, name, work_dir)
    return done


def _write_parts(
    chunk: Chunk, images_dir: str, work_dir: str, name: str, options: IngestOptions
) -> Iterator[tuple[int, int, int]]:
    """Writes the parts; yields how many items of each there are, bad ones and skipped ones."""
    source = open_generator(images_dir, options)
    results = count_progress(
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
