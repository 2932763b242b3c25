"""What a generator yields as an image, as the pieces of a file: arrays, tensors, Pillow's images.

Pillow is not imported for it: what is one of its images was made by it.
"""

import io
import sys
from typing import Any

import numpy as np

from image_pipeline.components.generators.generator_worker import WrongItem
from image_pipeline.components.messages import describe_error

Pieces = list[Any]  # of an image's file, one behind the other: bytes-like

_ORIENTATION = 0x0112  # EXIF's tag
# Pillow's modes whose pixels are all that there is to know, and those that a PNG holds exactly.
_PLAIN_MODES = ("L", "RGB", "F", "I", "I;16", "I;16L", "I;16B")
_MEANINGS = {"icc_profile", "transparency"}
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


def as_array(name: str, value: Any) -> Any:
    """The array of what can give one, such as a tensor; text in one as it is; others as they are.

    Raises:
      WrongItem: if it does not give it, as a tensor on a GPU may.
    """
    if isinstance(value, np.ndarray | np.generic) or not hasattr(type(value), "__array__"):
        return value
    try:
        array = np.asarray(value)
    except Exception as error:  # The type is anyone's: it may raise anything.
        raise WrongItem(f"{name!r} gives no array ({describe_error(error)})") from error
    return array.item() if array.dtype.hasobject and array.ndim == 0 else array


def is_picture(value: Any) -> bool:
    """Tells whether a value is an image of Pillow's."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def write_picture(name: str, picture: Any) -> Pieces:
    """An image of Pillow's, upright: what its file would give if it was opened from one.

    Pixels alone become an array. Palettes, transparency and colour profiles have a meaning that
    ingest knows of files, so such an image becomes a PNG.

    Raises:
      WrongItem: if it cannot be decoded, or is of a mode that no file holds exactly.
    """
    from PIL import ImageOps

    try:
        if picture.getexif().get(_ORIENTATION, 1) != 1:
            picture = ImageOps.exif_transpose(picture)
        picture.load()
        if picture.mode in _PLAIN_MODES and not picture.info.keys() & _MEANINGS:
            return write_array(name, np.asarray(picture))
        if picture.mode in _PNG_MODES:
            file = io.BytesIO()
            picture.save(file, "PNG", compress_level=1)
            return [file.getvalue()]
    except Exception as error:  # Pillow's decoders raise many kinds.
        message = f"the image {name!r} cannot be decoded ({describe_error(error)})"
        raise WrongItem(message) from error
    raise WrongItem(
        f"the image {name!r} has Pillow's mode {picture.mode}; yield it as .convert('RGB')"
    )


def write_array(name: str, array: np.ndarray) -> Pieces:
    """An array as an `.npy` file; its pixels are not copied if they lie in order."""
    if array.dtype.kind not in "biufc":
        raise WrongItem(f"the array {name!r} must be of numbers, got {array.dtype}")
    array = np.ascontiguousarray(array)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    return [head.getvalue(), array.reshape(-1).view(np.uint8)]
