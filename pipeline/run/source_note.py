"""Which images a data set was made from, so that it is not replaced by mistake.

`manifest.json` names no folders, since the same images give the same bytes anywhere. So ingest
writes `.source.json` beside it, which is valid only for the manifest whose checksum it has.
"""

import dataclasses
import json
import os

import pyarrow as pa
import pydantic

from image_pipeline.components import files
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.manifest import (
    Manifest,
    has_manifest,
    read_manifest,
    read_whole_manifest,
)
from image_pipeline.components.dataset.paths import SOURCE_NOTE
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.output import take_place
from image_pipeline.components.json_files import read_json
from image_pipeline.components.locks import hold_lock
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.meaning.options import IngestOptions, flatten_options
from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name
from image_pipeline.run_folder import RunFolder

# These decide whether a run ends, or what is said of it, and nothing of what it writes.
_FREE = {"ingest.max_bad_fraction", "ingest.understood"}
_WAY_OUT = "choose another --output; `ingest` replaces it with --replace (in Python, replace=True)."


@dataclasses.dataclass(frozen=True)
class _Note:
    """What `.source.json` holds: the folder of images, and the checksum in the manifest."""

    images: pydantic.InstanceOf[str]
    manifest: str | None


def resolve_source(images_dir: str) -> str:
    """One name for a folder of images, whichever path leads to it."""
    prefix, path = files.split_prefix(images_dir)
    is_path = path and files.is_local(path)
    return prefix + os.path.realpath(path) if is_path else images_dir.rstrip("/")


def write_source(output_dir: str, images_dir: str, manifest: Manifest) -> None:
    """Notes what the finished data set was made from."""
    note = {"images": resolve_source(images_dir), "manifest": manifest.checksum}
    files.write_file(files.join(output_dir, SOURCE_NOTE), json.dumps(note).encode())


def read_source(output_dir: str, manifest: Manifest) -> str | None:
    """The folder of images that the data set was made from; None if unknown."""
    try:
        note = read_json(files.join(output_dir, SOURCE_NOTE), _Note, "delete it")
    except (FileNotFoundError, UserError):
        return None
    is_of_this = manifest.checksum is not None and note.manifest == manifest.checksum
    return note.images if is_of_this else None


def check_same_source(output_dir: str, listing: Listing) -> None:
    """Makes sure that a finished data set is only replaced by one of the same images and options.

    Files of the folder may have changed. Where the folder is unknown, as for older data sets, it
    counts as the same if it has half of the data set's files by name.

    Args:
      output_dir: the data set's folder; nothing is checked where there is no finished one.
      listing: of the images.

    Raises:
      UserError: if it has other images or options, or is too damaged to tell.
    """
    images_dir, options = listing.images, listing.options
    try:
        manifest = read_manifest(output_dir)
        known, now = read_source(output_dir, manifest), resolve_source(images_dir)
        is_same = known == now
        if not known:
            stored: set[str] = set()
            for rows in scan_index(output_dir, ["source"]):
                stored.update(rows["source"].to_pylist())
            names = (decode_name(ref.path) for ref in listing.refs())
            is_same = 2 * sum(name in stored for name in names) >= len(stored)
    except FileNotFoundError:
        return
    except (UserError, pa.ArrowException) as error:
        raise UserError(
            f"{output_dir!r} holds a damaged data set ({error}), so it cannot be told whether it "
            f"was made from {images_dir!r}; {_WAY_OUT}"
        ) from error
    what = f"{output_dir!r} holds a finished data set of {manifest.books.written:,} records"
    if not is_same:
        source = repr(known) if known else "other images: half of its files are missing there"
        raise UserError(f"{what}, made from {source}, but --images is {now!r}; {_WAY_OUT}")
    if different := _compare_options(manifest.options, options):
        raise UserError(f"{what}, made from {now!r} with other options ({different}); {_WAY_OUT}")


def _compare_options(stored: dict, options: IngestOptions) -> str:
    """What differs, for a message. Of options that were not stored then, only set ones count."""
    try:
        old = flatten_options(IngestOptions.read_stored(stored).stored_form())
    except pydantic.ValidationError:
        return "those of another version"
    new, usual = (flatten_options(each.stored_form()) for each in (options, IngestOptions()))
    is_set = {key for key in new if new[key] != usual.get(key)}
    compared = (flatten_options(stored).keys() | is_set) - _FREE
    return "; ".join(
        f"{key} was {show(old.get(key))}, now {show(new.get(key))}"
        for key in sorted(compared)
        if old.get(key) != new.get(key)
    )


def find_written(data_dir: str, images_dir: str | None = None) -> tuple[str, IngestOptions]:
    """The images that a data set was made from, or where these are now, and the options.

    Raises:
      UserError: if there is no data set, another version wrote it, or its images are not known.
    """
    # An update may have been stopped just before its end.
    if not files.is_local(data_dir) or os.path.isdir(data_dir):
        with hold_lock(data_dir):
            take_place(data_dir)
    if not has_manifest(data_dir) and RunFolder(data_dir).list_data_sets():
        raise UserError(
            f"{data_dir!r} is a run's folder, whose data sets stay as they are; run again with the "
            "same --images and --output: it ingests what has changed, too."
        )
    manifest = read_whole_manifest(data_dir)
    try:
        options = IngestOptions.read_stored(manifest.options)
    except pydantic.ValidationError as error:
        raise UserError(
            "The data set's manifest has options that this version does not know; "
            f"run ingest again on the whole folder. ({error.errors()[0]['msg']})"
        ) from error
    # Levels that were found are found again.
    depth = options.prepare.depth.model_copy(update={"found": None})
    prepare = options.prepare.model_copy(update={"depth": depth})
    if (images := images_dir or read_source(data_dir, manifest)) is None:
        raise UserError(
            f"It is not known which images {data_dir!r} was made from; name them by --images."
        )
    return images, options.model_copy(update={"prepare": prepare})
