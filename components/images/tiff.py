"""A TIFF's layout of samples, by its tags, and the pixels of those that Pillow would spoil.

By hand is only the check: Pillow reads most 8-bit TIFFs correctly, but drops half of 16 bits.
OpenCV keeps 16 bits, but takes planes that lie one after the other (PlanarConfiguration 2) for
pixels, and what it then finds no data for is whatever was in memory. What neither reads correctly
is refused. (`tifffile` reads all, but for LZW, which most programs write, by a large package.)
"""

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
_STRIP_OFFSETS, _SAMPLES, _STRIP_ROWS, _STRIP_BYTES, _PLANAR = 273, 277, 278, 279, 284
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_BYTES = 322, 323, 324, 325
_EXTRA_SAMPLES, _SAMPLE_FORMAT = 338, 339
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB = 0, 1, 2
_SEPARATE_PLANES = 2
_UNSPECIFIED, _PREMULTIPLIED, _UNASSOCIATED = 0, 1, 2
_UNSIGNED, _UNDEFINED = 1, 4  # sample formats; the latter is to be read as the former
_MOST_DIRECTORIES = 10_000
# Colours of the photometric interpretations.
_COLORS = {_WHITE_IS_ZERO: 1, _BLACK_IS_ZERO: 1, _RGB: 3}
# (PhotometricInterpretation, samples): black is zero, RGB, and RGB with a fourth sample.
_READABLE = ((_BLACK_IS_ZERO, 1), (_RGB, 3), (_RGB, 4))
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
    """What the sample after the colours is; None where it is not stated, or there is none."""
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
    """Returns the tag's values, none where the file does not have the tag."""
    value = call_decoder(image.tag_v2.get, tag, ())  # type: ignore[attr-defined]
    values = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, int) and 0 <= number < 2**32 for number in values):
        raise BadImage(CORRUPT, f"tag {tag} of the TIFF is {value!r}, not a 32-bit number")
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
      keep_extra: whether a last sample that is not a colour is kept as it is, whatever it means.

    Returns:
      None for a TIFF that Pillow reads right, else upright pixels as they are stored: uint8 or
      uint16 gray [height, width], or BGR or BGRA [height, width, channels]. A colour that was
      multiplied by its alpha is divided by it; a last sample that is not an alpha is left out.

    Raises:
      BadImage: the layout is one that neither reads, or the data is damaged.
    """
    is_readable = (layout.photometric, len(layout.bits)) in _READABLE
    is_readable &= set(layout.bits) in ({8}, {16})
    if deep and (set(layout.bits), layout.formats) in _DEEP_NUMBERS:
        is_gray = (layout.photometric, len(layout.bits)) == (_BLACK_IS_ZERO, 1)
        is_readable = is_gray and not layout.is_thumbnail
    elif layout.is_thumbnail:
        message = "the TIFF's first image is a thumbnail, as in a camera's raw file; develop it"
        raise BadImage(UNSUPPORTED, f"{message} to JPEG, for example: darktable-cli FILE FILE.jpg")
    elif layout.formats <= {_UNSIGNED, _UNDEFINED} and max(layout.bits) <= 8:
        # Pillow reads it, but neither planes with a sample after the colours, nor keeps that one.
        is_kept = keep_extra and layout.has_extra and layout.compression in _DEEP_COMPRESSIONS
        if not is_kept and not (layout.separate_planes and layout.has_extra):
            return None
    else:
        is_readable &= layout.formats <= {_UNSIGNED, _UNDEFINED}
    if max(layout.bits) > 8 and layout.compression not in _DEEP_COMPRESSIONS:
        is_readable = False
    if not is_readable or layout.separate_planes:
        message = (
            f"TIFF of {layout.bits} bits, sample format {sorted(layout.formats)}, photometric "
            f"{layout.photometric} and compression {layout.compression}"
            + ", of separate planes"
            * layout.separate_planes
        )
        way_out = "convert it to 8 or 16 bit unsigned gray or RGB, uncompressed or with LZW or"
        example = "tiffcp -p contig -c lzw FILE FILE.tif"
        raise BadImage(UNSUPPORTED, f"{message}; {way_out} deflate, for example: {example}")
    _check_places(image, layout)
    buffer = np.frombuffer(data, np.uint8)
    pixels = call_decoder(cv2.imdecode, buffer, cv2.IMREAD_UNCHANGED, errors=(cv2.error,))
    if pixels is None:
        raise BadImage(CORRUPT, "the compressed data is damaged or ends before the last pixel")
    return pixels if keep_extra else _resolve_extra(pixels, layout)


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
    if not len(offsets) == len(lengths) == places:
        message = f"{len(offsets)} strips or tiles, but its size needs {places}"
        raise BadImage(CORRUPT, message)
    needed = np.full(places, rows * tile_width)
    if rows and height % rows and not _read_tag(image, _TILE_OFFSETS):
        needed[-1] = height % rows * width
    needed *= max(layout.bits) // 8 * len(layout.bits)
    if layout.compression == _NO_COMPRESSION and (np.array(lengths) < needed).any():
        raise BadImage(TRUNCATED, "a strip or tile has fewer bytes than its pixels need")


def _resolve_extra(pixels: np.ndarray, layout: TiffLayout) -> np.ndarray:
    """Turns the sample after the colours into unassociated alpha, or drops it.

    If unspecified, it is alpha; if it is stated to be no alpha, it is left out.
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
