"""The listing of images in the working folder, chunk by chunk.

Beam holds the names of these files only, so no process holds more than some chunks' references,
however many images there are.
"""

import dataclasses
import hashlib
import json
import pickle
import zlib
from collections.abc import Iterator
from typing import Any

from image_pipeline.components import files, progress
from image_pipeline.components.ingest.fence import check_run
from image_pipeline.components.meaning.listing import Listing, list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import Chunk
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


def keep_listing(listing: Listing, work_dir: str, run: str) -> list[ListedChunk]:
    """Writes a listing's chunks, and which they are, for `list_chunks` and `count_listed`.

    Of a generator, these are shards; how many images they hold is not known yet.
    """
    are_images = listing.kind.lists_images

    def keep(chunk: Chunk) -> ListedChunk:
        count = len(chunk.refs)
        return ListedChunk(_write_chunk(chunk, work_dir), count, count if are_images else 0, run)

    threads = files.count_threads(work_dir)
    chunks = list(map_in_order(keep, listing.chunks, threads, ahead=1))
    check_run(work_dir, run)
    kept = {"run": run, "chunks": [dataclasses.astuple(chunk) for chunk in chunks]}
    files.write_file(listing_path(work_dir), json.dumps(kept).encode())
    return chunks


def list_chunks(
    images_dir: str, work_dir: str, options: IngestOptions, run: str = ""
) -> Iterator[ListedChunk]:
    """The chunks that `keep_listing` has written for the run; of a template's, lists them now."""
    check_run(work_dir, run)
    kept = _read_kept(work_dir) if run else None
    if kept is not None and kept["run"] == run:
        chunks = [ListedChunk(*each) for each in kept["chunks"]]
    else:
        chunks = keep_listing(list_images(images_dir, options), work_dir, run)
    yield from chunks
    progress.begin("images", sum(chunk.images for chunk in chunks))


def count_listed(work_dir: str) -> int | None:
    """How many references were listed; None if none were."""
    kept = _read_kept(work_dir)
    return None if kept is None else sum(ListedChunk(*each).listed for each in kept["chunks"])


def read_chunk(chunk: ListedChunk, work_dir: str) -> Chunk:
    """Reads the references of a chunk; raises as `check_run`."""
    check_run(work_dir, chunk.run)
    content = zlib.decompress(files.read_file(files.join(work_dir, chunk.file)))
    return dataclasses.replace(pickle.loads(content), run=chunk.run)


def _read_kept(work_dir: str) -> dict[str, Any] | None:
    try:
        return json.loads(files.read_file(listing_path(work_dir)))
    except FileNotFoundError:
        return None


def listing_path(work_dir: str) -> str:
    """The file that says which chunks there are, and of which run."""
    return files.join(work_dir, "listed.json")


def _write_chunk(chunk: Chunk, work_dir: str) -> str:
    """Writes the references under a name that says what is in the file; returns the name."""
    content = zlib.compress(pickle.dumps(chunk, 5), 1)
    digest = hashlib.sha256(content).hexdigest()[:16]
    name = f"listed/{chunk.number:06d}-{digest}"
    files.write_file(files.join(work_dir, name), content)
    return name
