"""In = out: what enters a stage of ingest leaves it, or the run fails and names the stage.

The counts travel in the data and in small files in the working folder, since not every runner has
Beam's metrics. Here are the stages up to the plan, and the last one; `output.check_books` counts
the plan's books and the written shards.
"""

from collections.abc import Sequence

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import Manifest, parse_manifest
from image_pipeline.components.ingest.listed import count_listed, listing_path
from image_pipeline.components.ingest.output import FINISHED
from image_pipeline.components.ingest.prepared_rows import PreparedChunk
from image_pipeline.components.ingest.unpack import list_shards


def start_counts(work_dir: str) -> None:
    """Deletes the counts of an earlier run, before this one begins."""
    files.delete(listing_path(work_dir), files.join(work_dir, FINISHED))


def check_prepared(chunks: Sequence[PreparedChunk], work_dir: str) -> Sequence[PreparedChunk]:
    """Passes the chunks on if they hold every file that was listed.

    Raises:
      RuntimeError: if the runner or the stage lost one.
    """
    if (listed := count_listed(work_dir)) is None:
        raise RuntimeError("Stage List lost the images folder: 1 in, 0 out.")
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
