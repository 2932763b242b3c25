"""Which columns of Parquet and Arrow files hold images, by their types and their first cells."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.record_files.columnar_places import BYTES
from image_pipeline.components.sources.held import Unusable
from image_pipeline.components.sources.rows import is_text

PATH = "path"
"""The field of a structure that says what its image is called."""

# Views are how Polars writes bytes.
_BINARIES = (
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    pa.types.is_fixed_size_binary,
)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_SEVERAL = Unusable(
    "a row may have one image, but it holds a list of them; write a row for each", is_images=True
)
_OPAQUE = Unusable(
    "its bytes are neither text nor the file of an image; write pixels as PNG or .npy files"
)


@dataclasses.dataclass(frozen=True)
class Columns:
    """What some columns are.

    Attributes:
      images: those that hold images, and where in them the bytes are, such as `image.bytes`.
      unusable: those that nothing can be made of; they are not read.
    """

    images: dict[str, str] = dataclasses.field(default_factory=dict)
    unusable: dict[str, Unusable] = dataclasses.field(default_factory=dict)

    def fields_beside(self, field: pa.Field) -> list[str]:
        """The fields of a structure with an image that are read with the other columns."""
        inside = self.images[field.name]
        if not pa.types.is_struct(field.type):
            return []
        return [
            each.name
            for each in field.type
            if f"{field.name}.{each.name}" != inside and not _is_binary(each.type)
        ]


def find_columns(schema: pa.Schema, read_first: Callable[[str], Any]) -> Columns:
    """Looks at a file's columns.

    Args:
      schema: the file's.
      read_first: gives a column's first cells.
    """
    found = Columns()
    for field in schema:
        if pa.types.is_struct(field.type):
            if below := _find_field(field, read_first):
                found.images[field.name] = f"{field.name}.{below}"
        elif any(is_list(field.type) for is_list in _LISTS):
            item = field.type.value_type
            if (_is_binary(item) or pa.types.is_struct(item)) and any(
                map(_is_image, _list_bytes(read_first(field.name).to_pylist()))
            ):
                found.unusable[field.name] = _SEVERAL
        elif _is_binary(field.type):
            heads = [cell for cell in read_first(field.name).to_pylist() if cell]
            if any(map(_is_image, heads)):
                found.images[field.name] = field.name
            elif heads and not any(map(is_text, heads)):
                found.unusable[field.name] = _OPAQUE
    return found


def _find_field(field: pa.Field, read_first: Callable[[str], Any]) -> str:
    """The field of a structure that has an image's bytes; "" if none has.

    That of Hugging Face's is one whatever its first cells are: all may be paths.
    """
    if {each.name for each in field.type} == {BYTES, PATH}:
        return BYTES
    names = [each.name for each in field.type if _is_binary(each.type)]
    cells = [cell for cell in read_first(field.name).to_pylist() if cell] if names else []
    return next((name for name in names if any(_is_image(cell[name]) for cell in cells)), "")


def _list_bytes(cell: Any) -> Iterator[bytes]:
    """All bytes in a cell, at any depth."""
    if isinstance(cell, bytes):
        yield cell
    elif isinstance(cell, list | dict):
        for each in cell.values() if isinstance(cell, dict) else cell:
            yield from _list_bytes(each)


def _is_binary(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return any(is_kind(type_) for is_kind in _BINARIES)


def _is_image(data: bytes | None) -> bool:
    return bool(data) and tell_kind(data or b"").group in ("image", "unsupported_image")
