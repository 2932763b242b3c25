"""What a generator yields, as it goes from its process to the parent: plain cells, and images."""

import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from image_pipeline.components.generators.generator_worker import WrongItem

Pieces = list[Any]  # of an image's file, one behind the other: bytes-like
Body = tuple[dict[str, Any], dict[str, Pieces]]  # an item's cells, and its images by their columns

_SCALARS = (str, int, float, bool, type(None))
_BYTES = (bytes, bytearray, memoryview)


def encode_record(item: Any, image_columns: tuple[str, ...]) -> Body:
    """An item as a row of a table that holds its images.

    Args:
      item: a dict, or a pair of an image and a label. Images are arrays of two or more dimensions,
        or, in the columns of images, bytes of files.
      image_columns: those, in lower case.

    Returns:
      The cells, of plain types; and the images, arrays as the bytes of `.npy` files.

    Raises:
      WrongItem: if it is anything else.
    """
    if isinstance(item, tuple) and len(item) == 2:
        item = {"image": item[0], "label": item[1]}
    if not isinstance(item, Mapping) or not all(isinstance(name, str) for name in item):
        raise WrongItem(
            f"an item must be a dict by columns' names or a pair (image, label), got {_tell(item)}"
        )
    cells: dict[str, Any] = {}
    images: dict[str, Pieces] = {}
    for name, value in item.items():
        if isinstance(value, np.ndarray) and value.ndim > 1:
            images[name] = _as_file(name, value)
        elif isinstance(value, _BYTES) and name.lower() in image_columns:
            images[name] = [pickle.PickleBuffer(bytes(value))]
        else:
            cells[name] = _plain(name, value)
    return cells, images


def _as_file(name: str, array: np.ndarray) -> Pieces:
    """An array as an `.npy` file; its pixels are not copied if they lie in order."""
    if array.dtype.hasobject or array.dtype.fields:
        raise WrongItem(f"the array {name!r} must be of numbers, got {array.dtype}")
    array = np.ascontiguousarray(array)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    return [head.getvalue(), array.reshape(-1).view(np.uint8)]


def _plain(name: str, value: Any) -> Any:
    """A cell as a table could have it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, _BYTES):
        return bytes(value).decode(errors="surrogateescape")
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(name, each) for key, each in value.items()}
    raise WrongItem(
        f"{name!r} must be an array, a number, text, or a list or dict of these, got {_tell(value)}"
    )


def _tell(value: Any) -> str:
    """The type of a value, as people write it."""
    module, name = type(value).__module__, type(value).__qualname__
    name = name if module == "builtins" else f"{module}.{name}"
    return f"{name} of {len(value)}" if isinstance(value, list | tuple | dict) else name
