"""Where an image is that has no file of its own: a member of an archive, a row of an array."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where an image is that has no file of its own.

    Attributes:
      file: the path or URI of what holds it.
      kind: how it is read from there: a name that `places.read_place` knows.
      start: its first byte in the file, or the number of its row, from 0.
      length: how many bytes or rows.
      inside: what of the file it is in, such as an array's name.
      crc: the CRC-32 of its bytes; None if the file has none.
    """

    file: str
    kind: str
    start: int
    length: int = 1
    inside: str = ""
    crc: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class HeldImage:
    """A table's cell that holds an image itself, or a mask, where others have its path.

    Attributes:
      place: where its bytes are.
      size_bytes: how many there are, once they are unpacked.
      modified_ns: when the file that holds it was changed, as in `ImageRef`.
    """

    place: Place
    size_bytes: int
    modified_ns: int = 0
