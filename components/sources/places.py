"""Reads images that have no file of their own: members of archives, rows of arrays, records.

Each kind of place has a reader in a file of its own, which is imported when the first such image
is read: HDF5 costs nothing to whoever has a folder.
"""

import functools
import importlib
from collections.abc import Callable

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
