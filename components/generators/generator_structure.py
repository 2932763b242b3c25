"""What a generator yields, as arrays of stated types and shapes, in the process that runs it.

It knows nothing of TensorFlow, so a worker need not import it.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from image_pipeline.components.generators.generator_worker import WrongItem


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
