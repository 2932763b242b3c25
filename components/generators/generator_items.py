"""What a generator yields, as it goes from its process to the parent.

For ingest, plain cells and images, as the pieces of their files: arrays, tensors, Pillow's images.
For a data set, arrays of stated types and shapes. It knows nothing of TensorFlow, so a worker need
not import it, nor Pillow: what is one of its images was made by it.
"""

import dataclasses
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from image_pipeline.components.generators.generator_worker import WrongItem
from image_pipeline.components.messages import describe_error, show

Pieces = list[Any]  # of an image's file, one behind the other: bytes-like

_ORIENTATION = 0x0112  # EXIF's tag
# Pillow's modes whose pixels are all that there is to know, and those that a PNG holds exactly.
_PLAIN_MODES = ("L", "RGB", "F", "I", "I;16", "I;16L", "I;16B")
_MEANINGS = {"icc_profile", "transparency"}
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")
Body = tuple[dict[str, Any], dict[str, Pieces]]  # an item's cells, and its images by their columns

_SCALARS = (str, int, float, bool, type(None))
# Of a type of somebody's own, which may be known to its process alone.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}
# UTF-16 halves that no bytes give, as `os.fsdecode` and its like do.
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_MOST_NESTED = 100  # as deep as lists may lie in each other; a list may lie in itself
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
            f"an item must be a dict by columns' names or a pair (image, label), got {tell(item)}"
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
            images[name] = [bytes(value)]
        else:
            cells[name] = plain_cell(name, value)
    return cells, images


def plain_cell(name: str, value: Any, depth: int = 0) -> Any:
    """A cell as a table could have it. Raises WrongItem if it cannot be one."""
    value = as_array(name, value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, _BYTES):
        return bytes(value).decode(errors="surrogateescape")
    if isinstance(value, _SCALARS):
        return _plain_scalar(name, value)
    if depth > _MOST_NESTED:
        raise WrongItem(f"{name!r} is nested too deeply")
    if isinstance(value, list | tuple):
        return [plain_cell(name, each, depth + 1) for each in value]
    if isinstance(value, Mapping):
        return {str(key): plain_cell(name, each, depth + 1) for key, each in value.items()}
    raise WrongItem(
        f"{name!r} must be an array, a number, text, or a list or dict of these, got {tell(value)}"
    )


def _plain_scalar(name: str, value: Any) -> Any:
    """A value of one of the types that `_SCALARS` names, and of none below these."""
    if type(value) not in _SCALARS:
        value = next(make(value) for kind, make in _PLAIN.items() if isinstance(value, kind))
    if isinstance(value, str) and not value.isascii() and _HALF.search(value):
        raise WrongItem(f"{name!r} must be text, got {show(value)}, which has half a character")
    return value


def tell(value: Any) -> str:
    """The type of a value, as people write it."""
    module, name = type(value).__module__, type(value).__qualname__
    name = name if module == "builtins" else f"{module}.{name}"
    return f"{name} of {len(value)}" if isinstance(value, list | tuple | dict) else name


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


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One array of an item.

    Attributes:
      dtype: its type; None for text.
      shape: its dimensions, None for those that may be any; or None for any number of them.
    """

    dtype: np.dtype | None
    shape: tuple[int | None, ...] | None


def encode_structure(item: Any, structure: Any) -> list[np.ndarray]:
    """The arrays of an item, in the order of `tf.nest.flatten`.

    Args:
      item: what was yielded.
      structure: `Leaf`s in tuples and dicts.

    Raises:
      WrongItem: if the item has another structure, or an array another type or shape.
    """
    return [_convert(leaf, value, name) for leaf, value, name in _flatten(structure, item, "")]


def _flatten(structure: Any, item: Any, name: str) -> Iterator[tuple[Leaf, Any, str]]:
    if isinstance(structure, Leaf):
        yield structure, item, name or "the item"
    elif isinstance(structure, Mapping):
        if not isinstance(item, Mapping) or item.keys() != structure.keys():
            keys = list(item) if isinstance(item, Mapping) else type(item).__name__
            raise WrongItem(f"{name or 'the item'} must have {list(structure)}, got {keys}")
        for key in sorted(structure):
            yield from _flatten(structure[key], item[key], f"{name}[{key!r}]")
    else:
        if not isinstance(item, tuple | list) or len(item) != len(structure):
            size = f" of {len(item)}" if isinstance(item, tuple | list) else ""
            found = f"{type(item).__name__}{size}"
            raise WrongItem(f"{name or 'the item'} must be {len(structure)} values, got {found}")
        for number, part in enumerate(structure):
            yield from _flatten(part, item[number], f"{name}[{number}]")


def _convert(leaf: Leaf, value: Any, name: str) -> np.ndarray:
    try:
        array = _as_text(value) if leaf.dtype is None else _as_numbers(value, leaf.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        wanted = "text" if leaf.dtype is None else leaf.dtype
        found = getattr(value, "dtype", type(value).__name__)
        raise WrongItem(f"{name} must be {wanted}, got {found} ({error})") from error
    fits = leaf.shape is None or (
        len(leaf.shape) == array.ndim
        and all(want in (None, size) for want, size in zip(leaf.shape, array.shape, strict=True))
    )
    if not fits:
        raise WrongItem(f"{name} must be of shape {leaf.shape}, got {array.shape}")
    return array


def _as_numbers(value: Any, dtype: np.dtype) -> np.ndarray:
    """An array of a type; whole numbers must keep their values."""
    array = np.asarray(value)
    if array.dtype != dtype:
        if not np.can_cast(array.dtype, dtype, "same_kind") and dtype.kind not in "iu":
            raise ValueError("it cannot be converted")
        converted = array.astype(dtype)
        if dtype.kind in "iub" and not np.array_equal(converted, array):
            raise ValueError("values would change")
        array = converted
    return np.ascontiguousarray(array).reshape(array.shape)


def _as_text(value: Any) -> np.ndarray:
    array = np.asarray(value, object)
    flat = [_as_bytes(each) for each in array.reshape(-1)]
    text = np.empty(len(flat), object)
    text[:] = flat
    return text.reshape(array.shape)


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise ValueError("it is neither text nor bytes")
