"""Reads images that have no file of their own: members of archives, rows of arrays, records.

Each kind of place has a reader in a file of its own, which is imported when the first such image
is read: HDF5 costs nothing to whoever has a folder.
"""

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Sequence

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.references import ImageRef

Reader = Callable[[ImageRef, int], bytes]
"""Reads so many of an image's first bytes; it has no fewer. Raises as `read_place`."""

# The function that reads places of a kind, by its room and module.
_READERS = {
    "bytes": "archives.byte_ranges.read_plain",
    "zip": "archives.byte_ranges.read_zipped",
    "zip_deflated": "archives.byte_ranges.read_zipped",
    "gzip": "archives.byte_ranges.read_gzipped",
    "array": "arrays.arrays.read_row",
    **dict.fromkeys(
        ("record", "record_gzip", "record_zlib"), "record_files.tfrecord_places.read_image"
    ),
    "parquet": "record_files.columnar_places.read_parquet_cell",
    "arrow": "record_files.columnar_places.read_arrow_cell",
}


def read_place(ref: ImageRef, most_bytes: int) -> bytes:
    """The first bytes of an image that has a place; at most so many, or all if there are fewer.

    Raises:
      BadImage: if they are damaged.
      OSError: if the file that holds them cannot be read.
      UserError: if its store refuses it or does not answer.
    """
    assert ref.place is not None
    return _find_reader(ref.place.kind)(ref, min(ref.size_bytes, most_bytes))


@functools.cache
def _find_reader(kind: str) -> Reader:
    module, _, name = _READERS[kind].rpartition(".")
    return getattr(importlib.import_module(f"image_pipeline.components.{module}"), name)


def check_unchanged(refs: Sequence[ImageRef]) -> None:
    """Makes sure that what holds images was not changed between its listing and now.

    Called when the images were read: a change before that would go unseen, and another image's
    bytes would pass for one's own. A file that is gone is left to whoever reads it.

    Raises:
      UserError: if one was.
    """
    held = ((_holder_of(ref), ref.modified_ns) for ref in refs)
    masks = ((_holder_of(ref.mask), ref.mask.modified_ns) for ref in refs if ref.mask is not None)
    for path, modified_ns in {*held, *masks}:
        if not path or not modified_ns:
            continue
        with contextlib.suppress(FileNotFoundError):
            if not _is_folder(path) and files.stat_file(path)[1] != modified_ns:
                raise UserError(
                    f"{path!r} was changed after its images were listed, so they may be elsewhere "
                    "in it now; run again once nothing writes to it."
                )


def _holder_of(ref: ImageRef) -> str:
    """The file that an image is in; empty if it has one of its own."""
    if ref.place is None:
        return ""
    if ref.place.within is not None:
        return ref.place.within.file
    return ref.place.file if ref.place.kind in _READERS else ""


def _is_folder(path: str) -> bool:
    """A folder's time is that of the last of its files, and says nothing of it as a whole."""
    return files.is_local(path) and os.path.isdir(path)
