"""Images in TFRecords: a range of a record's bytes, whose checksum is looked at when it is read."""

import dataclasses
import io
import math

import numpy as np

from image_pipeline.components.archives.byte_ranges import read_range
from image_pipeline.components.archives.file_bytes import open_packed
from image_pipeline.components.dataset.tfrecord import FOOTER_BYTES, masked_crc
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.sources.held import Place
from image_pipeline.components.sources.references import ImageRef

_KIND = "record"


@dataclasses.dataclass(frozen=True, slots=True)
class Pixels:
    """What bytes are that are no file of an image: an array in C order.

    Attributes:
      dtype: as NumPy names it.
      shape: height, width, and channels if it has that axis.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """How many bytes they are."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def header(self) -> bytes:
        """What an `.npy` file of them begins with."""
        buffer = io.BytesIO()
        descr = np.lib.format.dtype_to_descr(np.dtype(self.dtype).newbyteorder("<"))
        fields = {"descr": descr, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(buffer, fields)
        return buffer.getvalue()


def make_place(
    path: str, packing: str, start: int, length: int, around: tuple[int, int], pixels: Pixels | None
) -> Place:
    """The place of bytes in a record.

    Args:
      path: of the file.
      packing: how it is packed, see `find_packing`.
      start: of the bytes, in the unpacked file.
      length: of the bytes.
      around: how many bytes of the record are before and behind them.
      pixels: what they are, if they are no file.
    """
    inside = ["{}+{}".format(*around)]
    if pixels is not None:
        inside += [pixels.dtype, "x".join(map(str, pixels.shape))]
    kind = f"{_KIND}_{packing}" if packing else _KIND
    return Place(path, kind, start, length, " ".join(inside))


def read_image(ref: ImageRef, wanted: int) -> bytes:
    """Reads an image in a record; see `places.Reader`."""
    assert ref.place is not None
    place = ref.place
    (before, after), pixels = _parse(place)
    header = b"" if pixels is None else pixels.header
    if wanted < ref.size_bytes:
        return (header + _read(ref, place.start, max(0, wanted - len(header))))[:wanted]
    size = before + place.length + after
    record = _read(ref, place.start - before, size + FOOTER_BYTES)
    data, crc = record[:size], record[size:]
    if len(record) < size + FOOTER_BYTES:
        raise BadImage(CORRUPT, f"{place.file!r} ends within its record")
    if masked_crc(data) != crc:
        raise BadImage(CORRUPT, f"its record's data or checksum in {place.file!r} is damaged")
    return header + data[before : before + place.length]


def _read(ref: ImageRef, start: int, size: int) -> bytes:
    assert ref.place is not None
    packing = ref.place.kind.removeprefix(_KIND).lstrip("_")
    if not packing:
        return read_range(ref, start, size)
    return open_packed(ref.place.file, packing, ref.modified_ns).pread(size, start)


def _parse(place: Place) -> tuple[tuple[int, int], Pixels | None]:
    around, *rest = place.inside.split()
    before, after = map(int, around.split("+"))
    if not rest:
        return (before, after), None
    return (before, after), Pixels(rest[0], tuple(map(int, rest[1].split("x"))))
