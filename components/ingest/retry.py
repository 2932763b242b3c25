"""Adds repaired images to a data set: of the sources, only the quarantined ones are read again.

The shards hold all other images as they were stored. So the prepare stage's rows and payloads are
restored from them, and what follows is ingest itself: the bytes are those of a fresh ingest of the
repaired folder, even if the other sources are gone by now. Before the first shard changes,
everything needed is in the working folder, so an interrupted retry can continue.
"""

import collections
import dataclasses
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pydantic

from image_pipeline.components import files
from image_pipeline.components.archives.archive_members import names_damage
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.lists import Duplicate, Quarantined, Skipped, read_list
from image_pipeline.components.dataset.manifest import has_manifest, read_manifest
from image_pipeline.components.dataset.paths import RETRY
from image_pipeline.components.errors import UserError
from image_pipeline.components.generators.generator import not_read_again
from image_pipeline.components.ingest.partition import read_labels
from image_pipeline.components.ingest.prepare_chunk import prepare_chunk
from image_pipeline.components.ingest.prepared import count_unusable, read_chunk_rows
from image_pipeline.components.ingest.work_folder import RETRY_MARK, PreparedChunk, WorkFolder
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions, flatten_options
from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.references import ImageRef, make_chunks
from image_pipeline.components.sources.rows import LOST
from image_pipeline.components.sources.source_kinds import kind_of


@dataclasses.dataclass(frozen=True)
class Retry:
    """What became of the quarantined files.

    Attributes:
      quarantined: how many there were.
      repaired: how many of these, and of the skipped files, are usable now.
      still_bad: how many are still not usable.
      gone: how many are no longer in the images folder.
      whole: paths of the files that can be decoded now.
      changed: whether the data set was rewritten.
    """

    quarantined: int
    repaired: int
    still_bad: int
    gone: int
    whole: Sequence[str] = ()
    changed: bool = False


def retry_work_dir(output_dir: str) -> str:
    """The working folder of a retry; not that of ingest, which may be interrupted as well."""
    return files.join(output_dir, RETRY)


def is_interrupted(output_dir: str, work_dir: str) -> bool:
    """Tells whether an earlier retry began to write but did not finish."""
    return not has_manifest(output_dir) and files.exists(files.join(work_dir, RETRY_MARK))


def choose_options(stored: dict, given: IngestOptions | None) -> IngestOptions:
    """The options that a data set was written with; any others given are refused.

    Args:
      stored: `options` of the manifest.
      given: the caller's options; None for the stored ones.

    Raises:
      UserError: if other options are given, or the stored ones are another version's.
    """
    try:
        written = IngestOptions.read_stored(stored)
    except pydantic.ValidationError as error:
        raise UserError(
            "The data set's manifest has options that this version does not know; "
            f"run ingest again on the whole folder. ({error.errors()[0]['msg']})"
        ) from error
    asked = given or written
    old, new = flatten_options(written.stored_form()), flatten_options(asked.stored_form())
    different = [
        f"{key} was {show(old.get(key))}, now {show(new.get(key))}"
        for key in sorted(old | new)
        if old.get(key) != new.get(key) and key != "ingest.understood"
    ]
    if different:
        raise UserError(
            f"The data set was written with other options: {'; '.join(different)}; leave out "
            "--config and --set to retry with the old ones, or run ingest on the whole folder."
        )
    return asked.model_copy(update={"prepare": written.prepare})  # With what was found then.


def prepare_quarantined(
    images_dir: str, output_dir: str, work: WorkFolder, options: IngestOptions
) -> tuple[list[PreparedChunk], Retry]:
    """Prepares the quarantined files as they are now.

    Returns:
      Their chunks, and how many are usable.

    Raises:
      UserError: if a generator made them, of which no single image can be read again; if the images
        are of another kind than those that were ingested; if they are in a file that was changed to
        repair some of them; or if there may be images now that no list has.
    """
    kind = kind_of(images_dir)
    if options.in_place:
        raise UserError(
            "A data set whose images are in their own file (ingest.in_place) cannot be retried, "
            "since every record names that file as it was; run ingest again."
        )
    if not kind.lists_images:
        raise not_read_again(images_dir)
    if kind.has_rows and not options.columns:
        raise UserError(
            "A retry reads what the data set was made from, a folder or an archive, but "
            f"{images_dir!r} is a table; name that, or run ingest again."
        )
    lines = list(read_list(output_dir, Quarantined))
    quarantined = {line.path for line in lines}
    # Skipped files are read again, too: one keeps its line, or has become an image.
    has_skipped = read_manifest(output_dir).books.skipped
    names = quarantined.union(
        (line.path for line in read_list(output_dir, Skipped)) if has_skipped else ()
    )
    stored: set[str] = set()
    if kind.has_rows:  # A table's rows may have moved since, so that a name is another image's.
        stored = {line.path for line in read_list(output_dir, Duplicate)}
        for rows in scan_index(output_dir, ["source"]):
            stored.update(rows["source"].to_pylist())
    met: set[str] = set()
    cut = {line.path for line in lines if line.message.endswith(LOST)}

    def find_named() -> Iterator[ImageRef]:
        """The references of the names, unless their image is stored already."""
        for ref in open_source(images_dir, options).list():
            row, mask = ref.annotations.row if ref.annotations else "", ref.mask
            own = names.intersection(filter(None, [ref.path, row, mask.path if mask else ""]))
            if not own or decode_name(ref.path) in stored:
                continue
            if ref.problem is None and row in cut:
                raise UserError(
                    f"{images_dir!r} has grown since it was ingested: there are rows after {row} "
                    "that the data set does not list. Run ingest again with --replace (from "
                    "Python: replace=True)."
                )
            met.update(own)
            yield ref

    chunks = [
        prepare_chunk(chunk, images_dir, work, options) for chunk in make_chunks(find_named())
    ]
    rows = pa.concat_tables(read_chunk_rows(chunk, work) for chunk in chunks)
    bad, skipped = count_unusable(rows)
    usable = rows.filter(pc.is_null(rows["reason"]))
    if options.conflicting_labels != "keep":  # Those that conflict are quarantined again.
        labels_of: dict[bytes, set[object]] = collections.defaultdict(set)
        contents = usable["sha256"].to_pylist()
        for content, labels in zip(contents, read_labels(usable, options), strict=True):
            labels_of[content].add(labels)
        bad += sum(len(labels_of[content]) > 1 for content in contents)
    gone = quarantined - met
    if kind.has_parts and any(map(names_damage, gone)):
        raise UserError(
            f"{images_dir!r} is whole now, or damaged elsewhere, and may hold members that no list "
            "had: run ingest again, with --replace (from Python: replace=True)."
        )
    whole = [*map(os.fsdecode, usable["path"].to_pylist())]
    repaired = len(rows) - bad - skipped
    return chunks, Retry(len(quarantined), repaired, bad, len(gone), whole)


def write_marker(
    chunks: list[PreparedChunk], retry: Retry, work: WorkFolder, options: IngestOptions
) -> None:
    """Writes what `read_marker` reads: from now on, the data set may be overwritten.

    Raises:
      UserError: if another run has begun.
    """
    work.check()
    stored = {
        "chunks": [dataclasses.asdict(chunk) for chunk in chunks],
        "rows": [work.sum_rows(chunk) for chunk in chunks],
        "retry": dataclasses.asdict(retry),
        "options": options.stored_form(),
    }
    work.write_sealed(RETRY_MARK, stored)


def read_marker(work: WorkFolder) -> tuple[list[PreparedChunk], Retry, dict]:
    """Reads what the rest of a retry needs: the chunks, the counts and the stored options.

    Raises:
      UserError: if that is not as it was written, and so the data set cannot be completed.
    """
    stored = work.read_sealed(RETRY_MARK)
    chunks = [] if stored is None else [PreparedChunk(**chunk) for chunk in stored["chunks"]]
    if stored is None or stored["rows"] != [work.sum_rows(chunk) for chunk in chunks]:
        raise UserError(
            "The retry that was interrupted cannot go on: the list of its images is damaged, or of "
            "another version. If that, go on with the version that began; else delete the folder "
            f"{work.path!r} and run ingest again on all images, with the same options."
        )
    return chunks, Retry(**stored["retry"]), stored["options"]
