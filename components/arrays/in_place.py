"""Records that hold no image, only where it is: in the file that it came from.

Such an image begins with a mark that no JPEG or PNG has; of raw pixels it has another length.
"""

import dataclasses
import functools
import json
import math

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.arrays.arrays import modified_at
from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage
from image_pipeline.components.sources.held import Place
from image_pipeline.components.sources.places import read_place
from image_pipeline.components.sources.references import ImageRef

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
    if ref.place is None:
        message = "ingest.in_place needs images in a file of arrays or an archive; this is a file"
        raise BadImage(UNSUPPORTED, message)
    if not encoded or not data.endswith(encoded):
        message = "ingest.in_place needs pixels as they are to be stored, but it would be converted"
        raise BadImage(UNSUPPORTED, message)
    place = dataclasses.replace(ref.place, file=files.make_absolute(ref.place.file))
    said = [*dataclasses.astuple(place), ref.size_bytes, ref.modified_ns]
    reference = _MARK + json.dumps([*said, len(data) - len(encoded)]).encode()
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
    encoded = image.encoded
    if bytes(encoded[: len(_MARK)]) != _MARK:
        return image
    if image.is_raw and len(encoded) == _count_bytes(image):
        return image  # Pixels that happen to begin so.
    *place, size_bytes, modified_ns, start = json.loads(str(encoded[len(_MARK) :], "ascii"))
    ref = ImageRef("", size_bytes, modified_ns, place=Place(*place))
    _check_unchanged(place[0], modified_ns)
    try:
        data = read_place(ref, size_bytes)
    except BadImage as error:
        raise ValueError(error.message) from error
    return image._replace(encoded=memoryview(data)[start:])


def _count_bytes(image: StoredImage) -> int:
    dtype = np.dtype(image.dtype)
    return math.prod((image.height, image.width, image.channels, dtype.itemsize))


@functools.lru_cache(1024)
def _check_unchanged(path: str, modified_ns: int) -> None:
    """Looks at a file once in a process."""
    try:
        is_same = modified_at(path) == modified_ns
    except FileNotFoundError as error:
        raise UserError(
            f"The data set's images are in {path!r} (ingest.in_place), which is gone; put it back, "
            "or run ingest again."
        ) from error
    if not is_same:
        raise UserError(
            f"The data set's images are in {path!r} (ingest.in_place), which was changed since; "
            "restore it, or run ingest again."
        )
