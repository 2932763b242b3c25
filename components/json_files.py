"""This project's own files of JSON, read with checks."""

import functools
from typing import Any, TypeVar

import pydantic

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import CHECKSUM, parse_own, seal

T = TypeVar("T")


def read_json(path: str, kind: type[T], way_out: str) -> T:
    """Reads a JSON file of this project's own; its checksum is verified, if it has one.

    Args:
      path: the file.
      kind: what it must hold: a model, a dataclass, or a type such as `dict[str, float]`.
      way_out: what to do if it is damaged, as the end of a sentence.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if it cannot be read, or holds something else.
    """
    content = read_whole(path, way_out)
    try:
        value = parse_own(content)
        if isinstance(value, dict) and CHECKSUM in value and value != seal(value):
            raise ValueError(f"its {CHECKSUM} is not that of its content")
        return check_json(value, kind)
    except ValueError as error:
        raise UserError(f"{path!r} is damaged ({error}); {way_out}.") from error


def read_versioned(path: str, kind: type[T], version: int, way_out: str) -> T:
    """Like `read_json`, of a file whose object has the key `version`: it must be this one."""
    found = read_json(path, dict[str, Any], way_out)
    if found.get("version") != version:
        raise UserError(
            f"{path!r} must be of version {version}, got {found.get('version')!r}, which another "
            f"version of image-pipeline wrote; {way_out}."
        )
    try:
        return check_json({key: found[key] for key in found if key != CHECKSUM}, kind)
    except ValueError as error:
        raise UserError(f"{path!r} is damaged ({error}); {way_out}.") from error


def read_whole(path: str, way_out: str) -> bytes:
    """Reads a file of this project's own.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if it cannot be read; the message ends with `way_out`.
    """
    try:
        return files.read_file(path)
    except NotADirectoryError as error:
        raise FileNotFoundError(*error.args) from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path!r} cannot be read ({error.strerror}); {way_out}.") from error


def check_json(value: Any, kind: type[T]) -> T:
    """What JSON holds, as a type; see `read_json`.

    Raises:
      ValueError: if it does not fit.
    """
    try:
        return _adapter(kind).validate_python(value)  # type: ignore[arg-type]  # It has a hash.
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"its {place}: {first['msg']}" if place else first["msg"]) from error


@functools.cache
def _adapter(kind: Any) -> pydantic.TypeAdapter:
    return pydantic.TypeAdapter(kind)
