"""Cells that are images, and where an image is that has no file of its own: a row, a member."""

import dataclasses
import operator
import re
from typing import Any, ClassVar


class Compact:
    """What there are millions of: pickled by its fields, in a sixth of a dataclass's own time."""

    __slots__ = ()
    fields: ClassVar[operator.attrgetter]

    def __init_subclass__(cls) -> None:
        """Knows the fields of the class."""
        cls.fields = operator.attrgetter(*cls.__annotations__)

    def __reduce__(self) -> tuple[Any, ...]:
        """See `pickle`."""
        return type(self), type(self).fields(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Place(Compact):
    """Where an image is that has no file of its own.

    Attributes:
      file: the path or URI of what holds it.
      kind: how it is read from there: a name that `places.read_place` knows.
      start: its first byte in the file, or the number of its row, from 0.
      length: how many bytes or rows.
      inside: what of the file it is in, such as an array's name.
      crc: the CRC-32 of its bytes; None if the file has none.
      within: where the file itself is, if it is a member of an archive.
    """

    file: str
    kind: str
    start: int
    length: int = 1
    inside: str = ""
    crc: int | None = None
    within: "Place | None" = None


@dataclasses.dataclass(frozen=True, slots=True)
class HeldImage(Compact):
    """A table's cell that holds an image itself, or a mask, where others have its path.

    Attributes:
      place: where its bytes are.
      size_bytes: how many there are, once they are unpacked.
      modified_ns: when the file that holds it was changed, as in `ImageRef`.
    """

    place: Place
    size_bytes: int
    modified_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Unusable:
    """A table's cell of which nothing can be made, such as bytes that are no text and no image.

    Attributes:
      why: what it has, and what may be done, as an error says it.
      is_images: whether it has several images: beside a column of images it may be left out.
    """

    why: str
    is_images: bool = False


# Words of an array's name that say which split it is of, or nothing: `x_train`, `test_set_y`.
_SPLIT_WORDS = {
    *("train", "training", "test", "testing", "val", "valid", "validation", "eval", "dev"),
}
_EMPTY_WORDS = {"set", "npy"}
_WORD = re.compile(r"[^\W_]+")


def split_of(name: str) -> str:
    """The word of an array's name that names a split, as of `train/X`; empty if none does."""
    return next((word for word in _WORD.findall(name.lower()) if word in _SPLIT_WORDS), "")


def name_of(name: str) -> str:
    """What an array is called but for its groups and its split: `x` of `train/X` and `x_train`."""
    words = _WORD.findall(name.lower().rpartition("/")[2])
    return "_".join(word for word in words if word not in _SPLIT_WORDS | _EMPTY_WORDS)
