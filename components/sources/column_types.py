"""Types of a table's columns: the narrowest that fits all values, and values of a type."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from image_pipeline.components.dataset.record import ColumnType
from image_pipeline.components.labels.box_cells import (
    CLASSES,
    FORMAT,
    IDS,
    StatedBoxes,
    read_boxes,
)
from image_pipeline.components.labels.boxes import BoxAnnotation
from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name, read_windows
from image_pipeline.components.sources.rows import EmbeddedImage, Unusable

Value = (
    int | float | str | list[int] | list[float] | list[str] | tuple[list[int], list[BoxAnnotation]]
)

_WIDTH = {"int": 0, "float": 1, "string": 2}
# A number with a leading zero is a name, such as a postcode.
_INT = re.compile(r"[+-]?(0|[1-9]\d*)")
_FLOAT = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?inf|nan", re.IGNORECASE)
_EXACT = 2**24  # Up to it, a 32-bit float holds every whole number.
_LARGEST = 3.4028235677973366e38  # Beyond it, no float32 is nearer than infinity.


class Items(list[Any]):
    """The values of a feature that does not say whether it is one value or a list: tf.Example's."""

    def __init__(self, values: Iterable[Any], kind: Literal["string", "float", "int"]):
        """Takes the values and what they are; a text of digits is not a number."""
        super().__init__(values)
        self.kind = kind

    def of_type(self, type_: ColumnType | None) -> Any:
        """The values as a cell of a column: of a list, or of one value or none."""
        if type_ is not None and _is_list(type_):
            return list(self)
        return list(self) if len(self) > 1 else self[0] if self else None


class TypeGuess:
    """The narrowest type that fits the values seen so far."""

    def __init__(self) -> None:
        self._kind: str | None = None
        self._is_large = False
        self._has_empty = False
        self._has_gap = False  # in a list
        self._is_list: bool | None = None
        self._has_fraction = False

    def see(self, value: Any) -> None:
        """Takes one more cell into account.

        Raises:
          ValueError: if no type fits both it and those before.
        """
        if is_empty(value):
            self._has_empty = True
            return
        if isinstance(value, Items):
            self._see_items(value)
            return
        if self._kind == "string" and not self._is_list and isinstance(value, str):
            return
        is_list = isinstance(value, list)
        if self._is_list not in (None, is_list):
            raise ValueError("some values are lists, others are not")
        self._is_list = is_list
        for item in value if is_list else [value]:
            if item is None:
                self._has_gap = True
                continue
            kind = _kind_of(item)
            self._is_large |= kind == "int" and abs(int(item)) > _EXACT
            self._has_fraction |= kind == "float" and float(item) % 1 > 0
            if self._kind is None or _WIDTH[kind] > _WIDTH[self._kind]:
                self._kind = kind

    def _see_items(self, items: Items) -> None:
        """A list as soon as any feature has several values; the kind is the feature's own."""
        self._is_list = bool(self._is_list) or len(items) > 1
        if all(item == "" for item in items):
            self._has_empty = True
            return
        if self._kind not in (None, items.kind):
            raise ValueError(f"some values are of the kind {self._kind}, others {items.kind}")
        self._kind = items.kind
        self._is_large |= any(isinstance(item, int) and abs(item) > _EXACT for item in items)
        self._has_fraction |= any(isinstance(item, float) and item % 1 > 0 for item in items)

    @property
    def type(self) -> ColumnType:
        """The type; "string" if nothing was seen."""
        kind = self._kind or "string"
        if kind == "int" and (self._has_gap if self._is_list else self._has_empty):
            # A number that a 32-bit float would round is more likely a name.
            kind = "string" if self._is_large else "float"
        return f"{kind}s" if self._is_list else kind  # type: ignore[return-value]

    @property
    def is_empty(self) -> bool:
        """Whether no value was seen."""
        return self._kind is None

    @property
    def is_list(self) -> bool:
        """Whether the values are lists."""
        return bool(self._is_list)

    @property
    def label_type(self) -> ColumnType:
        """What the values are as labels: "strings" (tags), "float" (a value) or classes' names.

        Whole numbers are names of classes, even if some have a decimal point.
        """
        if self._is_list:
            return "strings"
        return "float" if self._kind == "float" and self._has_fraction else "string"


class BoxGuess(TypeGuess):
    """The classes of a column of boxes."""

    type: ColumnType = "boxes"  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self._listed: list[str] = []
        self._named: set[str] = set()
        self._ids: dict[str, int] = {}
        self._has_any = False
        self.format: str | None = None

    def see(self, value: Any) -> None:
        """Takes one more cell into account; one that cannot be read is the row's problem."""
        try:
            boxes = read_boxes(value)[1]
        except ValueError:
            self._has_any = True
        else:
            self._has_any |= bool(boxes)
            self._named.update(box.name for box in boxes)
        if isinstance(value, StatedBoxes):
            self._listed = list(dict.fromkeys([*self._listed, *value.get(CLASSES, ())]))
            self._ids |= value.get(IDS, {})
            self.format = value.get(FORMAT)

    @property
    def is_empty(self) -> bool:
        """Whether no cell has a box, and no class is named."""
        return not (self._has_any or self._listed)

    @property
    def classes(self) -> tuple[str, ...]:
        """All that are listed; or else those that have ids, then others, numbers as numbers."""
        if self._listed:  # What a file does not list is a slip in its annotations.
            return tuple(self._listed)
        listed = sorted(self._ids, key=self._ids.__getitem__)
        others = self._named.difference(listed)
        as_number = {name: (0, int(name), name) for name in others if _INT.fullmatch(name)}
        return (*listed, *sorted(others, key=lambda n: as_number.get(n, (1, 0, n))))


class ImageGuess(TypeGuess):
    """A column of embedded images.

    Attributes:
      is_whole: whether any cell is one image.
      why: what the first cell is that is several; "" if none is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_whole = False
        self.why = ""

    def see(self, value: Any) -> None:
        """Takes one more cell into account; raises ValueError if it is anything else.

        One that is unusable is the row's problem.
        """
        if not is_empty(value) and not isinstance(value, EmbeddedImage | Unusable):
            raise ValueError("some cells are images, others are not")
        self.is_whole |= isinstance(value, EmbeddedImage)
        if isinstance(value, Unusable):
            self.why = self.why or value.why


def is_empty(value: Any) -> bool:
    """Tells whether a cell holds nothing."""
    return value is None or value == ""


def _kind_of(item: Any) -> str:
    """The narrowest scalar type of a value; raises ValueError if there is none."""
    if isinstance(item, str):
        if _INT.fullmatch(item):
            return _kind_of(int(item)) if len(item) < 21 else "string"
        is_finite = bool(_FLOAT.fullmatch(item)) and math.isfinite(float(item))
        return "float" if is_finite or item.lower().strip("+-") in ("inf", "nan") else "string"
    if isinstance(item, int):  # Python counts True among them.
        return "int" if -(2**63) <= item < 2**63 else "string"
    if isinstance(item, float):
        return "float"
    if isinstance(item, Unusable):
        raise ValueError(item.why)
    raise ValueError(f"{show(item)} is not a number, a text, or a list of these")


def convert_label(value: Any, type_: ColumnType, separator: str | None = None) -> Value:
    """A cell as tags, sorted and each once, or as a finite number.

    Raises:
      ValueError: if it is neither, or a tag has several lines, which no vocabulary can have.
    """
    if separator is not None and isinstance(value, str):
        value = value.split(separator)
    label = convert(value, type_)
    if isinstance(label, float) and not math.isfinite(label):
        raise ValueError("it is empty" if is_empty(value) else f"{value!r} is not finite")
    if not isinstance(label, list):
        return label
    tags = sorted({str(tag).strip() for tag in label} - {""})
    if several := [tag for tag in tags if "\n" in tag or "\r" in tag]:
        raise ValueError(f"a tag must be on one line, got {several[0]!r}")
    return tags


def convert(value: Any, type_: ColumnType) -> Value:
    """A cell as a value of a type.

    Raises:
      ValueError: if it cannot be one.
    """
    if isinstance(value, Unusable):
        raise ValueError(value.why)
    if type_ == "boxes":
        return read_boxes(value)
    if not _is_list(type_):
        return _convert_one(value, type_)
    if is_empty(value):
        return []
    if not isinstance(value, list):
        raise ValueError(f"{show(value)} is not a list")
    items: Any = [_convert_one(item, type_.removesuffix("s")) for item in value]
    return items


_KINDS = {"int": "an int", "float": "a float", "string": "a string"}


def _convert_one(item: Any, kind: str) -> int | float | str:
    if isinstance(item, list | dict):
        raise ValueError(f"{show(item)} is not {_KINDS[kind]}")
    if kind == "string":
        return "" if item is None else decode_name(read_windows(str(item)))
    if is_empty(item):
        if kind == "int":
            raise ValueError("it is empty")
        return math.nan
    found = _kind_of(item)
    if _WIDTH[found] > _WIDTH[kind]:
        raise ValueError(f"{show(item)} is not {_KINDS[kind]}")
    if kind == "int":
        return int(item)
    if abs(number := float(item)) >= _LARGEST and not math.isinf(number):
        raise ValueError(f"{show(item)} is too large for a 32-bit float")
    return number


def _is_list(type_: ColumnType) -> bool:
    return type_.endswith("s")


def feature_value(value: Value) -> Any:
    """A value as a record holds it: text as UTF-8."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace")
    if isinstance(value, Sequence):
        return [feature_value(item) for item in value]  # type: ignore[arg-type]
    return value
