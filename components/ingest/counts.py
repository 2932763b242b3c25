"""In = out: what enters a stage of ingest leaves it, or the run fails and names the stage.

The counts travel in the data and in small files in the working folder, since not every runner has
Beam's metrics. Here are the stages up to the plan, and the last one; `output.check_books` counts
the plan's books and the written shards.
"""

import json
from collections.abc import Iterator, Sequence

from image_pipeline.components import files, progress
from image_pipeline.components.dataset.manifest import Manifest, parse_manifest
from image_pipeline.components.generators.generator import SHARDS_AT_ONCE
from image_pipeline.components.ingest.books import BOOKS
from image_pipeline.components.ingest.open_source import open_source
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.output import FINISHED
from image_pipeline.components.ingest.prepared_rows import PreparedChunk
from image_pipeline.components.ingest.source_kind import kind_of
from image_pipeline.components.ingest.unpack import list_shards
from image_pipeline.components.sources.references import Chunk, make_chunks


def start_counts(work_dir: str) -> None:
    """Deletes the counts of an earlier run, before this one begins."""
    files.delete(_listed(work_dir), *(files.join(work_dir, name) for name in (BOOKS, FINISHED)))


def list_chunks(images_dir: str, work_dir: str, options: IngestOptions) -> Iterator[Chunk]:
    """Lists the images in chunks, and writes their number for `check_prepared`.

    Of a generator, these are the shards; how many images they hold is not known yet.
    """
    listed, refs = 0, open_source(images_dir, options).list()
    are_shards = not kind_of(images_dir).lists_images
    for chunk in make_chunks(refs, SHARDS_AT_ONCE) if are_shards else make_chunks(refs):
        listed += len(chunk.refs)
        yield chunk
    progress.begin("images", 0 if are_shards else listed)
    files.write_file(_listed(work_dir), json.dumps(listed).encode())


def check_prepared(chunks: Sequence[PreparedChunk], work_dir: str) -> Sequence[PreparedChunk]:
    """Passes the chunks on if they hold every file that was listed.

    Raises:
      RuntimeError: if the runner or the stage lost one.
    """
    try:
        listed = json.loads(files.read_file(_listed(work_dir)))
    except FileNotFoundError as error:
        raise RuntimeError("Stage List lost the images folder: 1 in, 0 out.") from error
    if (found := sum(chunk.listed for chunk in chunks)) != listed:
        raise RuntimeError(
            f"Stage Prepare lost files: {listed} in, {found} out; of its chunks "
            f"{sorted(chunk.number for chunk in chunks)} arrived. The Beam runner is at fault."
        )
    return chunks


def check_unpacked(names: Sequence[str], output_dir: str) -> Sequence[str]:
    """Passes the unpacked shards on if they are all that the data set has.

    Raises:
      RuntimeError: if the runner lost one.
    """
    if len(names) != (shards := len(list_shards(output_dir))):
        raise RuntimeError(f"Stage Unpack lost shards: {shards} in, {len(names)} out.")
    return names


def check_finished(work_dir: str) -> Manifest:
    """Reads the mark left by `write_manifest`: an earlier manifest must not pass for this run's.

    Returns:
      The manifest.

    Raises:
      RuntimeError: if this run wrote no manifest, though its runner reported no failure.
    """
    try:
        return parse_manifest(files.read_file(files.join(work_dir, FINISHED)))
    except FileNotFoundError as error:
        raise RuntimeError(
            "Stage WriteManifest lost the list of shards: 1 in, 0 out, so this run wrote no "
            "manifest. The Beam runner is at fault."
        ) from error


def _listed(work_dir: str) -> str:
    return files.join(work_dir, "listed.json")
