"""A TIFF's layout of samples, by its tags, and the pixels of those that Pillow would spoil.

Pillow reads most 8-bit TIFFs correctly, but drops half of 16 bits. OpenCV keeps 16 bits, but takes
planes that lie one after the other (PlanarConfiguration 2) for pixels, and what it then finds no
data for is whatever was in memory. So it gets each plane as an image of its own, through a
directory for that plane at the file's end. What neither reads correctly is refused. (`tifffile`
reads all of it, but needs a large package of codecs for LZW, which is what most programs write.)
"""

import io
import struct
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from PIL import Image

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)

# TIFF 6.0's tags, and their values where they are used.
_SUBFILE_TYPE, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 254, 256, 257, 258, 259, 262
_FILL_ORDER, _STRIP_OFFSETS, _ORIENTATION, _SAMPLES, _STRIP_ROWS = 266, 273, 274, 277, 278
_STRIP_BYTES, _PLANAR, _PREDICTOR, _TILE_WIDTH, _TILE_HEIGHT = 279, 284, 317, 322, 323
_TILE_OFFSETS, _TILE_BYTES, _EXTRA_SAMPLES, _SAMPLE_FORMAT, _JPEG_TABLES = 324, 325, 338, 339, 347
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB = 0, 1, 2
_SEPARATE_PLANES = 2
_UNSPECIFIED, _PREMULTIPLIED, _UNASSOCIATED = 0, 1, 2
_UNSIGNED, _UNDEFINED = 1, 4  # sample formats; the latter is to be read as the former
_MOST_DIRECTORIES = 10_000
# What every plane of an image shares.
_COPIED = (
    *(_WIDTH, _HEIGHT, _COMPRESSION, _FILL_ORDER, _ORIENTATION, _STRIP_ROWS),
    *(_PREDICTOR, _TILE_WIDTH, _TILE_HEIGHT),
)
_PLACES = (_STRIP_OFFSETS, _STRIP_BYTES, _TILE_OFFSETS, _TILE_BYTES)
# Colours of the photometric interpretations.
_COLORS = {_WHITE_IS_ZERO: 1, _BLACK_IS_ZERO: 1, _RGB: 3}
# (PhotometricInterpretation, samples): black is zero, RGB, and RGB with a fourth sample.
_CONTIGUOUS = ((_BLACK_IS_ZERO, 1), (_RGB, 3), (_RGB, 4))
_PLANES = (*_CONTIGUOUS, (_BLACK_IS_ZERO, 2))
# None, LZW, deflate by both its numbers, and PackBits. OpenCV's libtiff has not all of the others.
_NO_COMPRESSION = 1
_DEEP_COMPRESSIONS = (_NO_COMPRESSION, 5, 8, 32946, 32773)
# Bits and sample formats of int16 and float32.
_DEEP_NUMBERS = (({16}, {2}), ({32}, {3}))


@dataclass(frozen=True, slots=True)
class TiffLayout:
    """How a TIFF's samples lie, as its tags say."""

    bits: tuple[int, ...]
    """Of each sample."""
    formats: frozenset[int]
    """1 and 4 for unsigned, 2 for signed, 3 for floating point."""
    photometric: int
    compression: int
    separate_planes: bool
    """Whether all of a channel's samples lie together, not a pixel's."""
    extra: int | None
    """What the sample after the colours is; None where it is not said, or there is none."""
    is_thumbnail: bool
    """Whether the first image is a smaller version of another one in the file."""

    @property
    def has_extra(self) -> bool:
        """Whether there is one sample after the colours."""
        return len(self.bits) == _COLORS.get(self.photometric, len(self.bits)) + 1


def check_directories(data: bytes) -> None:
    """Refuses a TIFF of more images than Pillow counts in a few seconds.

    Raises:
      BadImage: there are too many.
    """
    order: Literal["little", "big"] = "little" if data[:1] == b"I" else "big"
    is_big = 0x2B in data[2:4]
    width, count_width, entry_bytes = (8, 8, 20) if is_big else (4, 2, 12)

    def read(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], order)

    at, seen = read(8 if is_big else 4, width), set[int]()
    while at and at not in seen:
        seen.add(at)
        if len(seen) > _MOST_DIRECTORIES:
            message = f"a TIFF of more than {_MOST_DIRECTORIES:,} images; the first is read"
            raise BadImage(UNSUPPORTED, f"{message}; save that by itself")
        at = read(at + count_width + entry_bytes * read(at, count_width), width)


def read_tiff_layout(image: Image.Image) -> TiffLayout:
    """Reads the layout of an opened TIFF.

    Raises:
      BadImage: the tags are damaged.
    """

    bits = _read_tag(image, _BITS) or (1,)
    if len(bits) == 1:  # One value may stand for all samples.
        bits *= next(iter(_read_tag(image, _SAMPLES)), 1)
    subfile = next(iter(_read_tag(image, _SUBFILE_TYPE)), 0)
    return TiffLayout(
        bits=bits,
        formats=frozenset(_read_tag(image, _SAMPLE_FORMAT) or (_UNSIGNED,)),
        photometric=next(iter(_read_tag(image, _PHOTOMETRIC)), _WHITE_IS_ZERO),
        compression=next(iter(_read_tag(image, _COMPRESSION)), _NO_COMPRESSION),
        separate_planes=_read_tag(image, _PLANAR)[:1] == (_SEPARATE_PLANES,) and len(bits) > 1,
        extra=next(iter(_read_tag(image, _EXTRA_SAMPLES)), None),
        is_thumbnail=bool(subfile & 1),
    )


def _read_tag(image: Image.Image, tag: int) -> tuple[int, ...]:
    """Returns the tag's values, none where the file has not the tag."""
    value = call_decoder(image.tag_v2.get, tag, ())  # type: ignore[attr-defined]
    values = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, int) and 0 <= number < 2**32 for number in values):
        raise BadImage(CORRUPT, f"tag {tag} of the TIFF is {value!r}, no 32-bit number")
    return values


def decode_tiff_samples(
    data: bytes,
    image: Image.Image,
    layout: TiffLayout,
    deep: bool = False,
    keep_extra: bool = False,
) -> np.ndarray | None:
    """Decodes by OpenCV what Pillow would not decode correctly.

    Args:
      data: the whole file.
      image: its opened header.
      layout: its layout.
      deep: whether gray int16 and float32 are read, too.
      keep_extra: whether a last sample that is no colour is kept as it is, whatever it means.

    Returns:
      None for a TIFF that Pillow reads right, else upright pixels as they are stored: uint8 or
      uint16 gray [height, width], BGR or BGRA [height, width, channels], or gray and alpha
      [height, width, 2]. A colour that was multiplied by its alpha is divided by it; a last sample
      that is no alpha is left out.

    Raises:
      BadImage: the layout is one that neither reads, or the data is damaged.
    """
    if deep and (set(layout.bits), layout.formats) in _DEEP_NUMBERS:
        return _decode_numbers(data, image, layout)
    _check_layout(layout)
    has_planes = layout.separate_planes and (max(layout.bits) > 8 or layout.has_extra)
    is_kept = keep_extra and layout.has_extra and layout.compression in _DEEP_COMPRESSIONS
    if max(layout.bits) <= 8 and not has_planes and not is_kept:
        return None
    readable = _PLANES if has_planes else _CONTIGUOUS
    if (
        (layout.photometric, len(layout.bits)) not in readable
        or set(layout.bits) not in ({8}, {16})
        or (max(layout.bits) > 8 and layout.compression not in _DEEP_COMPRESSIONS)
    ):
        raise _refuse(layout)
    _check_places(image, layout)
    pixels = _decode_planes(data, image, layout) if has_planes else _decode_whole(data)
    return pixels if keep_extra else _resolve_extra(pixels, layout)


def _decode_numbers(data: bytes, image: Image.Image, layout: TiffLayout) -> np.ndarray:
    """Decodes a gray TIFF of int16 or float32."""
    is_gray = (layout.photometric, len(layout.bits)) == (_BLACK_IS_ZERO, 1)
    if layout.is_thumbnail or not is_gray or layout.compression not in _DEEP_COMPRESSIONS:
        raise _refuse(layout)
    _check_places(image, layout)
    return _decode_whole(data)


def _check_layout(layout: TiffLayout) -> None:
    if layout.is_thumbnail:
        message = "the TIFF's first image is a thumbnail, as in a camera's raw file; develop it"
        raise BadImage(UNSUPPORTED, f"{message} to JPEG, for example: darktable-cli FILE FILE.jpg")
    if not layout.formats <= {_UNSIGNED, _UNDEFINED}:
        raise _refuse(layout)


def _check_places(image: Image.Image, layout: TiffLayout) -> None:
    """Refuses a TIFF whose strips or tiles are too few or too short for all its pixels.

    OpenCV does not check, and leaves old memory contents where nothing was decoded.
    """
    width, height, strip_rows, tile_width, tile_height = (
        next(iter(_read_tag(image, tag)), 0)
        for tag in (_WIDTH, _HEIGHT, _STRIP_ROWS, _TILE_WIDTH, _TILE_HEIGHT)
    )
    if offsets := _read_tag(image, _TILE_OFFSETS):
        lengths, rows = _read_tag(image, _TILE_BYTES), tile_height
        places = -(-width // max(tile_width, 1)) * -(-height // max(tile_height, 1))
    else:
        offsets, lengths = _read_tag(image, _STRIP_OFFSETS), _read_tag(image, _STRIP_BYTES)
        tile_width, rows = width, min(strip_rows or height, height)
        places = -(-height // rows)
    planes = len(layout.bits) if layout.separate_planes else 1
    if not len(offsets) == len(lengths) == places * planes:
        message = f"{len(offsets)} strips or tiles, where the size asks for {places * planes}"
        raise BadImage(CORRUPT, message)
    needed = np.full((planes, places), rows * tile_width)
    if rows and height % rows and not _read_tag(image, _TILE_OFFSETS):
        needed[:, -1] = height % rows * width
    needed *= max(layout.bits) // 8 * len(layout.bits) // planes
    if layout.compression == _NO_COMPRESSION and (np.array(lengths) < needed.ravel()).any():
        raise BadImage(TRUNCATED, "a strip or tile has fewer bytes than its pixels ask for")


def _refuse(layout: TiffLayout) -> BadImage:
    message = (
        f"TIFF of {layout.bits} bits, sample format {sorted(layout.formats)}, photometric "
        f"{layout.photometric} and compression {layout.compression}"
    )
    way_out = "convert it to 8 or 16 bit unsigned gray or RGB, of no compression, LZW or deflate"
    return BadImage(UNSUPPORTED, f"{message}; {way_out}, for example: tiffcp -c lzw FILE FILE.tif")


def _decode_whole(data: bytes) -> np.ndarray:
    buffer = np.frombuffer(data, np.uint8)
    decoded = call_decoder(cv2.imdecode, buffer, cv2.IMREAD_UNCHANGED, errors=(cv2.error,))
    if decoded is None:
        raise BadImage(CORRUPT, "the compressed data is damaged or ends before the last pixel")
    return decoded


def _decode_planes(data: bytes, image: Image.Image, layout: TiffLayout) -> np.ndarray:
    """Decodes each plane as a gray image; returns [height, width, channels], as OpenCV would."""
    decode = _decode_whole if max(layout.bits) > 8 else _decode_gray
    count = len(layout.bits)
    planes = [decode(_point_to_plane(data, image, layout, n)) for n in range(count)]
    if {plane.shape for plane in planes} != {planes[0].shape[:2]}:
        raise BadImage(CORRUPT, f"planes of {[plane.shape for plane in planes]} are no image")
    colors = planes[2::-1] if count >= 3 else planes[:1]
    return np.dstack(colors + planes[len(colors) :])


def _decode_gray(data: bytes) -> np.ndarray:
    """Decodes a gray TIFF of 8 bits by Pillow; OpenCV refuses some of tiles."""
    with call_decoder(Image.open, io.BytesIO(data), formats=("TIFF",)) as image:
        call_decoder(image.load)
        return np.asarray(image)


def _point_to_plane(data: bytes, image: Image.Image, layout: TiffLayout, plane: int) -> bytes:
    """Returns the file with a directory at its end that describes one plane only, as a gray image.

    All strips or tiles of a plane lie together in the lists of their places (TIFF 6.0, 273).
    """
    tags = {tag: _read_tag(image, tag) for tag in _COPIED}
    tags |= {_BITS: layout.bits[:1], _PHOTOMETRIC: (_BLACK_IS_ZERO,), _SAMPLES: (1,)}
    for tag in _PLACES:
        tags[tag] = _places_of_plane(_read_tag(image, tag), plane, len(layout.bits))
    return _append_directory(data, {tag: values for tag, values in tags.items() if values})


def _append_directory(data: bytes, tags: dict[int, tuple[int, ...]]) -> bytes:
    """Returns the TIFF with a new first directory at its end (TIFF 6.0, section 2).

    All values are written as the longest whole numbers: 4 bytes each, or 8 in a BigTIFF.
    """
    order = "<" if data[:1] == b"I" else ">"
    is_big = data[2] == 0x2B
    start, number, count, number_type = (8, "Q", "Q", 16) if is_big else (4, "L", "H", 4)
    width = struct.calcsize("=" + number)
    end = len(data) + -len(data) % 8  # Directories begin at even places.
    values_at = end + struct.calcsize("=" + count) + len(tags) * (4 + 2 * width) + width
    entries, long_values = struct.pack(order + count, len(tags)), b""
    for tag, values in sorted(tags.items()):
        packed = struct.pack(f"{order}{len(values)}{number}", *values)
        entries += struct.pack(f"{order}HH{number}", tag, number_type, len(values))
        if len(values) == 1:
            entries += packed
        else:
            entries += struct.pack(order + number, values_at + len(long_values))
            long_values += packed
    header = data[:start] + struct.pack(order + number, end)
    body = data[start + width :].ljust(end - start - width, b"\0")
    return header + body + entries + bytes(width) + long_values


def _places_of_plane(places: tuple[int, ...], plane: int, planes: int) -> tuple[int, ...]:
    count, rest = divmod(len(places), planes)
    if rest:
        message = f"{len(places)} strips or tiles cannot be shared out to {planes} planes"
        raise BadImage(CORRUPT, message)
    return places[plane * count : (plane + 1) * count]


def _resolve_extra(pixels: np.ndarray, layout: TiffLayout) -> np.ndarray:
    """Turns the sample after the colours into unassociated alpha, or drops it.

    If unspecified, it is alpha; if it is said to be neither kind of alpha, it is left out.
    """
    if not layout.has_extra or layout.extra in (None, _UNASSOCIATED):
        return pixels
    if layout.extra != _PREMULTIPLIED:
        colors = np.ascontiguousarray(pixels[:, :, :-1])
        return colors[:, :, 0] if colors.shape[2] == 1 else colors
    top = np.iinfo(pixels.dtype).max
    alpha = pixels[:, :, -1:].astype(np.uint64)
    # Rounded; a colour above its alpha is impossible, and clipped to white.
    colors = (pixels[:, :, :-1] * np.uint64(top) + alpha // 2) // np.maximum(alpha, 1)
    return np.dstack([np.minimum(colors, top), alpha]).astype(pixels.dtype)
