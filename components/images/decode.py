"""Any image file to upright 8-bit pixels, or a `BadImage` that says why not."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from image_pipeline.components.images.bad_image import (
    EMPTY,
    TOO_LARGE_FILE,
    TOO_MANY_PIXELS,
    TOO_SMALL,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.images.color import composite, convert_to_srgb, orient
from image_pipeline.components.images.decoders import read_pixels
from image_pipeline.components.images.depth import ALL_LEVELS, Levels
from image_pipeline.components.images.header import Header, open_image, read_header, read_size
from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.images.npy import (
    ArrayHeader,
    is_npy,
    name_type,
    read_array,
    read_array_header,
)
from image_pipeline.components.images.sound import decode_sound
from image_pipeline.components.images.spectrogram import SoundOptions


@dataclass(frozen=True, slots=True)
class DecodedImage:
    """Upright pixels and what was learned about the file on the way."""

    pixels: np.ndarray
    """Of the file's size, or of a fraction that `target_size` allows;
    uint8 gray [height, width], RGB [height, width, 3] or CMYK [height, width, 4]."""
    icc: bytes | None
    """Colour profile of `pixels`; None means sRGB. Not applied yet: that can cost 25 ns a pixel,
    more than decoding a JPEG, so the caller should shrink the image first."""
    header: Header
    """The file's. Its orientation is already applied."""
    notes: tuple[str, ...]
    """The header's and the decoder's."""


def decode_image(
    data: bytes,
    *,
    gray: bool,
    alpha_background: tuple[int, int, int],
    min_side_px: int,
    max_pixels: int,
    max_file_bytes: int,
    target_size: Callable[[int, int], tuple[int, int]] = lambda height, width: (height, width),
    sound: SoundOptions | None = None,
    levels: Levels | None = None,
) -> DecodedImage:
    """Decodes a file, whatever its name, and applies orientation and alpha.

    A file whose first frame is incomplete is always refused. A PNG's checksums find any damage.
    JPEG has none: what is found is a broken marker structure, an invalid code, pixels without data,
    and zeros that no image has. Surplus bytes are noted. What only changes pixels goes unnoticed
    (docs/damage.md has the shares).

    Args:
      data: the whole file.
      gray: whether only gray is wanted; JPEGs then skip their colour channels.
      alpha_background: RGB colour behind transparent pixels.
      min_side_px: least length of each side.
      max_pixels: most pixels; checked against the header, before anything is decoded.
      max_file_bytes: most bytes of the file.
      target_size: from the file's (height, width) to the size that it will be resized to. A JPEG of
        a multiple of that size is decoded at a half, a quarter or an eighth of its own.
      sound: how WAV and FLAC files are drawn; None if they are not read.
      levels: how colours of 16 bits become 8; None for the top 8 of all bits that
        the file has, and then arrays of uint16, of which nothing tells how many are used, are
        refused.

    Returns:
      The upright pixels, in the file's own colours.

    Raises:
      BadImage: the file is not a complete, readable image within the limits.
    """
    check_file(data, max_file_bytes)
    if is_npy(data):
        return _decode_npy(data, min_side_px, max_pixels, levels)
    if sound is not None and tell_kind(data).name in ("wav", "flac"):
        pixels, source_format, notes = decode_sound(data, sound)
        height, width = pixels.shape
        check_size(height, width, min_side_px, max_pixels)
        header = Header(source_format, height, width, 1, 1, None, True, notes)
        return DecodedImage(pixels, None, header, notes)
    with open_image(data) as image:
        height, width = read_size(image)
        check_size(height, width, min_side_px, max_pixels)
        reduction = _choose_reduction(height, width, target_size(height, width))
        return _decode_opened(data, image, gray, alpha_background, reduction, levels)


def read_image_header(data: bytes) -> Header:
    """What a file says of itself, without decoding it; raises BadImage if it is no image."""
    if is_npy(data):
        return _describe_array(read_array_header(data))
    with open_image(data) as image:
        return read_header(image, data)


def check_file(data: bytes, max_file_bytes: int) -> None:
    """Raises `BadImage` if the file is empty or too large."""
    if not data:
        raise BadImage(EMPTY, "the file has no bytes; upload it again")
    if len(data) > max_file_bytes:
        message = f"{len(data)} bytes, more than max_file_bytes={max_file_bytes}; raise it to allow"
        raise BadImage(TOO_LARGE_FILE, message)


# Pillow raises MemoryError, however much there is, where a row has more than 2³¹ bits: at 64 bits a
# pixel, its most (`ImagingCodec.setimage`), from 2²⁵ pixels on.
_MOST_SIDE_PX = 2**24


def check_size(height: int, width: int, min_side_px: int, max_pixels: int) -> None:
    """Raises `BadImage` if an image's size in pixels is not within the limits."""
    if min(height, width) < min_side_px:
        message = f"{width}x{height} px, below min_side_px={min_side_px}; lower it to keep these"
        raise BadImage(TOO_SMALL, message)
    if max(height, width) > _MOST_SIDE_PX:
        message = f"{width}x{height} px, but no decoder reads a side above {_MOST_SIDE_PX} px"
        raise BadImage(UNSUPPORTED, message)
    if height * width > max_pixels:
        message = f"{width}x{height} px, more than max_pixels={max_pixels}; raise it for such files"
        raise BadImage(TOO_MANY_PIXELS, message)


def _choose_reduction(height: int, width: int, target: tuple[int, int]) -> int:
    """Returns by how many times smaller a JPEG may be decoded: 8, 4, 2 or 1.

    libjpeg averages blocks of pixels before it computes them, which takes half the time for large
    photos. At least 1.5 times the target's sides are left to the resize: then the result is as near
    to Pillow's antialiased resize as that of all pixels (0.2 gray levels nearer, over 7 photos).
    Sides that are no multiple would be padded, and the image stretched by a fraction of a pixel.
    """
    factor = min(height / target[0], width / target[1])
    fits = (d for d in (8, 4, 2) if factor >= 1.5 * d and height % d == width % d == 0)
    return next(fits, 1)


def open_array(data: bytes, min_side_px: int, max_pixels: int) -> tuple[ArrayHeader, Header]:
    """Reads the header of an array that is an image within the limits."""
    array = read_array_header(data)
    header = _describe_array(array)
    check_size(header.height, header.width, min_side_px, max_pixels)
    return array, header


def _describe_array(array: ArrayHeader) -> Header:
    if len(array.shape) not in (2, 3):
        message = f"an array of shape {array.shape}, but an image is [height, width(, channels)]"
        raise BadImage(UNSUPPORTED, message)
    height, width, channels = (*array.shape, 1)[:3]
    dtype = name_type(array.dtype)
    return Header("npy", height, width, channels, 1, None, True, (), dtype)


def _decode_npy(
    data: bytes, min_side_px: int, max_pixels: int, levels: Levels | None
) -> DecodedImage:
    """Reads an array of gray or RGB pixels of 8 bits, or of 16 if it is said what these become."""
    array, header = open_array(data, min_side_px, max_pixels)
    if array.dtype != "u1" and (array.dtype != "u2" or levels is None):
        message = f"an array of {name_type(array.dtype)}, but ingest.prepare.dtype=uint8"
        stretch = "ingest.prepare.depth=maximum makes 8 bits of it, and " * (array.dtype == "u2")
        stored = "uint16, float16 and float32 are stored, too"
        raise BadImage(UNSUPPORTED, f"{message}; {stretch}{stored}")
    if header.channels not in (1, 3):
        message = f"an array of shape {array.shape}, of which the last number is the channels"
        way_out = f"1 or 3 make a gray or RGB image; ingest.prepare.channels={header.channels}"
        first = "; np.moveaxis(images, 1, -1) brings channels last" * (array.shape[0] in (1, 3))
        raise BadImage(UNSUPPORTED, f"{message}; {way_out} stores others as they are{first}")
    pixels, notes = read_array(data, array), tuple[str, ...]()
    if pixels.dtype == np.uint16:
        pixels, notes = (levels or ALL_LEVELS).narrow(pixels), ("16bit",)
    color = pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels
    return DecodedImage(color, None, header, notes)


def _decode_opened(
    data: bytes,
    image: Image.Image,
    gray: bool,
    alpha_background: tuple[int, int, int],
    reduction: int,
    levels: Levels | None,
) -> DecodedImage:
    """Decodes, then applies alpha and orientation."""
    header = read_header(image, data)
    icc, luma_only = header.icc, gray and header.icc is None
    source_format = header.source_format
    color, alpha, notes = read_pixels(data, image, source_format, luma_only, reduction, levels)
    if alpha is not None:
        # The background is an sRGB colour, so the image has to become sRGB first.
        color, profile_notes = convert_to_srgb(color, icc)
        color, icc = composite(color, alpha, alpha_background), None
        notes += profile_notes
    if source_format != "tiff":  # both decoders turn TIFFs upright themselves
        color = orient(color, header.orientation)
    return DecodedImage(pixels=color, icc=icc, header=header, notes=header.notes + notes)
