"""The listing of images, kept in the working folder chunk by chunk while it goes on.

Beam holds the names of these files only, so no process holds more than some chunks' references,
however many images there are.
"""

import dataclasses
import hashlib
import json
import pickle
import zlib
from collections.abc import Iterator

from image_pipeline.components import files, progress
from image_pipeline.components.generators.generator import SHARDS_AT_ONCE
from image_pipeline.components.ingest.fence import check_run
from image_pipeline.components.ingest.open_source import open_source
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.source_kind import kind_of
from image_pipeline.components.sources.references import Chunk, make_chunks
from image_pipeline.components.threads import map_in_order


@dataclasses.dataclass(frozen=True, slots=True)
class ListedChunk:
    """What the list stage passes on: a hundred bytes for thousands of images.

    Attributes:
      file: its references, in the working folder.
      listed: how many there are.
      images: how many images these are known to be; 0 for shards of a generator.
      run: the run, see `fence`.
    """

    file: str
    listed: int
    images: int
    run: str


def list_chunks(
    images_dir: str, work_dir: str, options: IngestOptions, run: str = ""
) -> Iterator[ListedChunk]:
    """Lists the images in chunks, and writes their number for `counts.check_prepared`.

    Of a generator, these are the shards; how many images they hold is not known yet.
    """
    check_run(work_dir, run)
    listed, refs = 0, open_source(images_dir, options).list()
    are_shards = not kind_of(images_dir).lists_images

    def keep(chunk: Chunk) -> ListedChunk:
        count = len(chunk.refs)
        return ListedChunk(_write_chunk(chunk, work_dir), count, 0 if are_shards else count, run)

    chunks = make_chunks(refs, SHARDS_AT_ONCE) if are_shards else make_chunks(refs)
    for kept in map_in_order(keep, chunks, files.count_threads(work_dir), ahead=1):
        listed += kept.listed
        yield kept
    progress.begin("images", 0 if are_shards else listed)
    check_run(work_dir, run)
    files.write_file(count_path(work_dir), json.dumps(listed).encode())


def read_chunk(chunk: ListedChunk, work_dir: str) -> Chunk:
    """Reads the references of a chunk; raises as `check_run`."""
    check_run(work_dir, chunk.run)
    content = zlib.decompress(files.read_file(files.join(work_dir, chunk.file)))
    return dataclasses.replace(pickle.loads(content), run=chunk.run)


def count_path(work_dir: str) -> str:
    """The file with the number of references that were listed."""
    return files.join(work_dir, "listed.json")


def _write_chunk(chunk: Chunk, work_dir: str) -> str:
    """Writes the references under a name that says what is in the file; returns the name."""
    content = zlib.compress(pickle.dumps(chunk, 5), 1)
    digest = hashlib.sha256(content).hexdigest()[:16]
    name = f"listed/{chunk.number:06d}-{digest}"
    files.write_file(files.join(work_dir, name), content)
    return name
