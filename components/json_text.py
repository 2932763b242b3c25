"""JSON by its standard, which has neither NaN nor Infinity."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from image_pipeline.components import files


def read_json(path: str) -> Any:
    """Reads a JSON file; earlier versions wrote NaN and Infinity where null stands now."""
    return json.loads(files.read_file(path), parse_constant=lambda _: None)


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
