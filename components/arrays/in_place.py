"""Records that hold no image, only where it is: in the file that it came from.

Such an image begins with a mark that no JPEG or PNG has; of raw pixels it has another length.
"""

import dataclasses
import functools
import json
import math
import os

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.arrays.arrays import modified_at
from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import Location
from image_pipeline.components.sources.source_kinds import read_location

_MARK = b"\0in place\0"


def make_reference(ref: ImageRef, data: bytes, encoded: bytes) -> bytes:
    """What a record holds instead of an image.

    Args:
      ref: where the image is.
      data: what is read from there.
      encoded: what would be stored: `data`, or what of it comes after a header.

    Raises:
      BadImage: if it would be stored as anything else.
    """
    if ref.location is None:
        message = "ingest.in_place needs images in a file of arrays or an archive; this is a file"
        raise BadImage(UNSUPPORTED, message)
    if not encoded or not data.endswith(encoded):
        message = "ingest.in_place needs pixels as they are to be stored, but it would be converted"
        raise BadImage(UNSUPPORTED, message)
    location = dataclasses.replace(ref.location, file=files.make_absolute(ref.location.file))
    fields = [*dataclasses.astuple(location), ref.size_bytes, ref.modified_ns]
    reference = _MARK + json.dumps([*fields, len(data) - len(encoded)]).encode()
    return reference + b" " * (len(reference) == len(encoded))


def refers(serialized: bytes) -> bool:
    """Whether a serialized record may hold no image, but only where it is."""
    return _MARK in serialized


def fetch(image: StoredImage) -> StoredImage:
    """The image itself, if a record holds only where it is.

    Raises:
      UserError: if the file that has it is gone, or was changed.
      ValueError: if it is damaged.
    """
    found = _read_reference(image)
    if found is None:
        return image
    ref, start = found
    _check_unchanged(ref)
    try:
        data = read_location(ref, ref.size_bytes)
    except BadImage as error:
        raise ValueError(error.message) from error
    return image._replace(encoded=memoryview(data)[start:])


def check_file(image: StoredImage) -> bool:
    """Looks for the file that has an image, if a record holds only where it is; False if not.

    Raises:
      UserError: if the file is gone, or was changed.
    """
    found = _read_reference(image)
    if found is not None:
        _check_unchanged(found[0])
    return found is not None


def _read_reference(image: StoredImage) -> tuple[ImageRef, int] | None:
    """Where an image is, and where in what is read from there it begins; None if it is here."""
    encoded = image.encoded
    if bytes(encoded[: len(_MARK)]) != _MARK:
        return None
    sides = (image.height, image.width, image.channels)
    if image.is_raw and len(encoded) == math.prod(sides) * np.dtype(image.dtype).itemsize:
        return None  # Pixels that happen to begin so.
    *location, size_bytes, modified_ns, start = json.loads(str(encoded[len(_MARK) :], "ascii"))
    return ImageRef("", size_bytes, modified_ns, location=Location(*location)), start


def _check_unchanged(ref: ImageRef) -> None:
    assert ref.location is not None
    path, modified_ns = ref.location.file, ref.modified_ns
    try:
        # A file is looked at each time, in 2 µs: it may be changed while it is read.
        is_folder = files.is_local(path) and os.path.isdir(path)
        is_same = (_modified_at_first if is_folder else modified_at)(path) == modified_ns
    except OSError as error:
        raise UserError(
            f"The data set's images are in {path!r} (ingest.in_place), which is gone or cannot be "
            f"read ({error.strerror}); put it back, or run ingest again."
        ) from error
    if not is_same:
        raise UserError(
            f"The data set's images are in {path!r} (ingest.in_place), which was changed since; "
            "restore it, or run ingest again."
        )


_modified_at_first = functools.lru_cache(1024)(modified_at)
"""Of a folder, which may have very many files: once in a process."""
