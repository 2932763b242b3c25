"""JSON by its standard, which has neither NaN nor Infinity."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.messages import show


def read_json(path: str) -> Any:
    """Reads a JSON file; earlier versions wrote NaN and Infinity where null stands now."""
    return json.loads(files.read_file(path), parse_constant=lambda _: None)


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON by its pairs; raises ValueError if a key is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {show(twice)} is there twice")
    return found


def parse_json(text: str, make_object: Callable[[Any], Any] = once) -> Any:
    """Parses JSON that anyone may have written.

    Args:
      text: all of it.
      make_object: makes an object of its pairs.

    Raises:
      ValueError: if it is none, has a key twice or is nested too deeply; it says so in a sentence.
    """
    try:
        return json.loads(text, object_pairs_hook=make_object)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        is_long = "integer string conversion" in str(error)  # Python's limit is 4,300 digits.
        raise ValueError("a number has too many digits" if is_long else str(error)) from error


def to_json(value: Any, **options: Any) -> str:
    """`json.dumps`, but numbers that are not finite become null.

    Python would write `NaN` and `Infinity`, which other JSON readers reject.

    Args:
      value: what `json.dumps` takes, and dataclasses, which become objects of their fields.
    """
    return json.dumps(_without_non_finite(value), allow_nan=False, **options)


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_without_non_finite(key): _without_non_finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_non_finite(each) for each in value]
    return value
