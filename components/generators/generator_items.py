"""What a generator yields, as it goes from its process to the parent: plain cells, and images."""

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from image_pipeline.components.generators.generator_images import (
    Pieces,
    as_array,
    is_picture,
    write_array,
    write_picture,
)
from image_pipeline.components.generators.generator_worker import WrongItem

Body = tuple[dict[str, Any], dict[str, Pieces]]  # an item's cells, and its images by their columns

_SCALARS = (str, int, float, bool, type(None))
_BYTES = (bytes, bytearray, memoryview)


def encode_record(item: Any, image_columns: tuple[str, ...]) -> Body:
    """An item as a row of a table that holds its images.

    Args:
      item: a dict, or a pair of an image and a label. Images are arrays of two or more dimensions
        (NumPy's, or what gives one, such as a tensor), Pillow's images, or, in the columns of
        images, bytes of files.
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
    for name, given in item.items():
        if is_picture(given):
            images[name] = write_picture(name, given)
            continue
        value = as_array(name, given)
        if isinstance(value, np.ndarray) and value.ndim > 1:
            images[name] = write_array(name, value)
        elif isinstance(value, _BYTES) and name.lower() in image_columns:
            images[name] = [pickle.PickleBuffer(bytes(value))]
        else:
            cells[name] = _plain(name, value)
    return cells, images


def _plain(name: str, value: Any) -> Any:
    """A cell as a table could have it."""
    value = as_array(name, value)
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
