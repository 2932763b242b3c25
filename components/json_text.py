"""JSON by its standard, which has neither NaN nor Infinity."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from image_pipeline.components.messages import show

CHECKSUM = "content_sha256"  # Of the other keys of a file that has one, see `seal`.
JSON_VERSION = 1
"""Of what `--json` prints: another one has other keys, or other meanings of them."""
# Python would make of a number in a few bytes one of any size, or infinity.
_MOST_DIGITS = 20


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON by its pairs; raises ValueError if a key appears twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {show(twice)} appears twice")
    return found


def parse_json(text: str | bytes, make_object: Callable[[Any], Any] = once, **hooks: Any) -> Any:
    """Parses JSON that anyone may have written.

    Args:
      text: all of it.
      make_object: makes an object of its pairs.
      **hooks: of `json.loads`.

    Raises:
      ValueError: in a sentence, if it is not JSON, has a key twice or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=make_object, **hooks)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        is_long = "integer string conversion" in str(error)  # Python's limit is 4,300 digits.
        raise ValueError("a number has too many digits" if is_long else str(error)) from error


def parse_own(content: bytes) -> Any:
    """Parses JSON that this project wrote, in which numbers are finite and fit into 64 bits.

    Earlier versions wrote NaN and Infinity where null stands now, so they are read as that.

    Raises:
      ValueError: if it is anything else.
    """
    hooks = {"parse_int": _parse_int, "parse_float": _parse_float}
    return parse_json(content, parse_constant=lambda _: None, **hooks)


def seal(content: Mapping[str, Any], key: str = CHECKSUM) -> dict[str, Any]:
    """An object with its checksum: SHA-256 over its other keys as canonical JSON.

    Canonical means sorted keys, no spaces, ASCII. So a file may be reindented, but not changed.
    """
    rest = {name: value for name, value in content.items() if name != key}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return {**rest, key: hashlib.sha256(canonical.encode()).hexdigest()}


def flatten(values: Mapping[str, Any], joint: str = ".", prefix: str = "") -> dict[str, Any]:
    """A nested dict as one of dotted names; lists are values."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, joint, f"{prefix}{name}{joint}")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def to_json(value: Any, **options: Any) -> str:
    """`json.dumps`, but numbers that are not finite become null.

    Python would write `NaN` and `Infinity`, which other JSON readers reject.

    Args:
      value: what `json.dumps` takes, and dataclasses and models, which become objects of their
        fields.
    """
    return json.dumps(_without_non_finite(value), allow_nan=False, **options)


def to_sealed_json(value: Mapping[str, Any], **options: Any) -> str:
    """`to_json` of an object, with its checksum; `json_files.read_json` verifies it."""
    return to_json(seal(json.loads(to_json(value))), **options)


def _parse_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a whole number has {len(digits):,} digits")
    return int(digits)


def _parse_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"a number is too large: {show(digits)}")
    return value


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "model_dump"):  # Pydantic's; not imported, as `--help` imports this.
        value = dict(value)
    elif dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_without_non_finite(key): _without_non_finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_non_finite(each) for each in value]
    return value
