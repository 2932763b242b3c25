"""Prepares the images that Python generators make: a unit of work is some of their shards.

How many images these hold is known when they have run, so a unit's rows and payloads are written in
parts of bounded size. A unit that is interrupted is run again from its beginning.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator

from image_pipeline.components import files, progress
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
    name_parts,
    write_rows,
)
from image_pipeline.components.ingest.source_kind import kind_of, open_generator
from image_pipeline.components.sources.references import Chunk
from image_pipeline.components.threads import map_in_order

_PART_ROWS = 4096


def prepare(chunk: Chunk, images_dir: str, work_dir: str, options: IngestOptions) -> PreparedChunk:
    """Prepares a chunk's images, or the shards of a generator."""
    prepares = prepare_chunk if kind_of(images_dir).lists_images else prepare_shards
    return prepares(chunk, images_dir, work_dir, options)


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
    mark = files.join(work_dir, "prepared", f"{name}.json")
    if files.is_file(mark):
        done = PreparedChunk(**json.loads(files.read_file(mark)))
        progress.advance(done.found, done.bad, done.skipped)
        return done
    parts = list(_write_parts(chunk, images_dir, work_dir, name, options))
    found, bad, skipped = (sum(counts) for counts in zip(*parts, strict=True))
    shards = len(chunk.refs)
    done = PreparedChunk(chunk.number, chunk.is_last, found, bad, name, skipped, shards, len(parts))
    files.write_file(mark, json.dumps(dataclasses.asdict(done)).encode())
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
        rows = write_rows(itertools.islice(results, _PART_ROWS), part_name, work_dir, options)
        yield len(rows), *count_unusable(rows)
