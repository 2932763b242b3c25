"""In == out: what enters a stage of ingest leaves it, or the run fails and names the stage.

The counts travel in the data and in small files in the working folder, since not every runner has
Beam's metrics. Here are the stages up to the plan, and the last one; the plan's books and the
written shards are counted by `manifest.check_books`.
"""

import json
from collections.abc import Iterator, Sequence

from components import files, progress
from components.ingest.prepare import PreparedChunk
from components.ingest.shards import WrittenShard
from components.ingest.sources import Chunk, list_images, make_chunks
from components.ingest.unpack import list_shards


def start_counts(work_dir: str) -> None:
    """Forgets the counts of an earlier run, before this one begins."""
    files.delete(_path(work_dir, "listed"), _path(work_dir, "finished"), _books(work_dir))


def list_chunks(images_dir: str, work_dir: str) -> Iterator[Chunk]:
    """Lists the images in chunks, and leaves the number of files for `check_prepared`."""
    listed = 0
    for chunk in make_chunks(list_images(images_dir)):
        listed += len(chunk.refs)
        yield chunk
    progress.begin("images", listed)
    _write(work_dir, "listed", listed)


def check_prepared(chunks: Sequence[PreparedChunk], work_dir: str) -> Sequence[PreparedChunk]:
    """Passes the chunks on if they hold every file that was listed.

    Raises:
      RuntimeError: if the runner or the stage lost one.
    """
    if not files.is_file(_path(work_dir, "listed")):
        raise RuntimeError("Stage List lost the images folder: 1 in, 0 out.")
    listed = json.loads(files.read_file(_path(work_dir, "listed")))
    if (found := sum(chunk.found for chunk in chunks)) != listed:
        raise RuntimeError(
            f"Stage Prepare lost files: {listed} in, {found} out; of its chunks "
            f"{sorted(chunk.number for chunk in chunks)} arrived. The Beam runner is at fault."
        )
    return chunks


def check_planned(written: Sequence[WrittenShard], work_dir: str) -> Sequence[WrittenShard]:
    """Passes the shards on if the plan that they come from was made in this run.

    Raises:
      RuntimeError: if the runner lost the list of chunks that the plan is made of.
    """
    if not files.is_file(_books(work_dir)):
        raise RuntimeError("Stage Plan lost the list of chunks: 1 in, 0 out.")
    return written


def check_unpacked(names: Sequence[str], output_dir: str) -> Sequence[str]:
    """Passes the unpacked shards on if they are all that the data set has.

    Raises:
      RuntimeError: if the runner lost one.
    """
    if len(names) != (shards := len(list_shards(output_dir))):
        raise RuntimeError(f"Stage Unpack lost shards: {shards} in, {len(names)} out.")
    return names


def mark_finished(manifest: dict, work_dir: str) -> dict:
    """Passes the manifest on, and leaves the mark that `check_finished` looks for."""
    _write(work_dir, "finished", manifest["found"])
    return manifest


def check_finished(work_dir: str) -> None:
    """Looks for the mark: an earlier run's manifest must not pass for this one's.

    Raises:
      RuntimeError: if this run wrote no manifest, though its runner reported no failure.
    """
    if not files.is_file(_path(work_dir, "finished")):
        raise RuntimeError(
            "Stage WriteManifest lost the list of shards: 1 in, 0 out, so this run wrote no "
            "manifest. The Beam runner is at fault."
        )


def _books(work_dir: str) -> str:
    return files.join(work_dir, "books.json")


def _path(work_dir: str, name: str) -> str:
    return files.join(work_dir, "counts", f"{name}.json")


def _write(work_dir: str, name: str, count: int) -> None:
    with files.write_atomically(_path(work_dir, name)) as file:
        file.write(json.dumps(count).encode())
