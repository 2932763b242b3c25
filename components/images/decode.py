"""Any image file to upright 8-bit pixels, or a `BadImage` that says why not.

libjpeg-turbo decodes JPEGs, OpenCV every PNG and 16-bit TIFFs: they are the faster decoders, keep
16 bits, and refuse damage that they find. Pillow reads the headers of all but plain JPEGs, and the
pixels of everything else.
"""

import contextlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from components.images.bad_image import (
    CORRUPT,
    DECODER_ERRORS,
    EMPTY,
    NOT_AN_IMAGE,
    TOO_LARGE_FILE,
    TOO_MANY_PIXELS,
    TOO_SMALL,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)
from components.images.color import (
    composite,
    convert_to_srgb,
    orient,
    read_orientation,
)
from components.images.jpeg import (
    expose_missing_data,
    is_arithmetic,
    read_jpeg_structure,
    read_plain_header,
)
from components.images.jpeg_pixels import decode_jpeg

# The caller's pool of threads, an image each, is the parallelism; OpenCV's own threads inside each
# of them would only compete for the same cores.
cv2.setNumThreads(0)
# A bad file is reported as a `BadImage`, so OpenCV's own log lines would only repeat it. The few
# lines that libjpeg and libpng print to stderr by themselves cannot be turned off from Python.
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # type: ignore[attr-defined]
# `max_pixels` refuses large images, per call and with a reason. Pillow's process-wide limit would
# warn or raise earlier, at sizes of its own.
Image.MAX_IMAGE_PIXELS = None

# Pillow's format names to ours. MPO is what Pillow calls a JPEG that further JPEGs follow, such as
# a phone's depth map; it opens those as JPEG.
_FORMATS = {
    "JPEG": "jpeg",
    "MPO": "jpeg",
    "PNG": "png",
    "WEBP": "webp",
    "TIFF": "tiff",
    "BMP": "bmp",
    "DIB": "bmp",
    "GIF": "gif",
    "AVIF": "avif",
}
_OPENED_FORMATS = tuple(name for name in _FORMATS if name != "MPO")
_READABLE_MAGIC = re.compile(
    rb"\xff\xd8\xff|\x89PNG|RIFF....WEBP|II\*\0|MM\0\*|BM|GIF8|....ftypavi[fs]", re.DOTALL
)
# Images that this module does not read: Photoshop, JPEG 2000, JPEG XL, HEIC, OpenEXR, SVG.
_OTHER_MAGIC = re.compile(
    rb"8BPS|\0\0\0\x0cjP  |\xff\x4f\xff\x51|\0\0\0\x0cJXL |\xff\x0a|....ftyp(?:hei|hev|mif|msf)"
    rb"|v/1\x01|\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg\b",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class DecodedImage:
    """Upright pixels and what was learned about the file on the way."""

    pixels: np.ndarray
    """Of the file's size, or of a fraction that `target_size` allows;
    uint8 gray [height, width], RGB [height, width, 3] or CMYK [height, width, 4]."""
    icc: bytes | None
    """Colour profile of `pixels`; None means sRGB. Not applied yet: that can cost 25 ns a pixel,
    more than decoding a JPEG does, so it is for the caller to shrink the image first."""
    source_format: str
    source_height: int
    """From the file's header, before orientation, in pixels."""
    source_width: int
    source_channels: int
    """1 for gray, 3 for colour, before conversion; alpha is not counted."""
    orientation: int
    """EXIF orientation, 1 to 8; already applied."""
    notes: tuple[str, ...]
    lossless: bool
    """False where the file's own compression has already cost detail."""


class _Pixels(NamedTuple):
    """Decoded but not yet converted pixels."""

    color: np.ndarray  # uint8 gray [height, width], or RGB or CMYK [height, width, channels]
    alpha: np.ndarray | None  # uint8 [height, width]
    notes: tuple[str, ...]


def decode_image(
    data: bytes,
    *,
    gray: bool,
    alpha_background: tuple[int, int, int],
    min_side_px: int,
    max_pixels: int,
    max_file_bytes: int,
    target_size: Callable[[int, int], tuple[int, int]] = lambda height, width: (height, width),
) -> DecodedImage:
    """Decodes a file, whatever its name, and applies orientation and alpha.

    A file whose first frame is not whole is always refused. A PNG's checksums find any damage. JPEG
    has none: what is found is a broken marker structure, a code that means nothing, and pixels
    without data. Bytes that are left over are noted. What only changes pixels goes unseen (of 300
    photos with 64 bytes overwritten, 71; with one bit flipped, 250).

    Args:
      data: the whole file.
      gray: whether only gray is wanted; JPEGs then skip their colour channels.
      alpha_background: RGB colour behind transparent pixels.
      min_side_px: least length of each side.
      max_pixels: most pixels; checked against the header, before anything is decoded.
      max_file_bytes: most bytes of the file.
      target_size: (height, width) of the file to those that it will be resized to. A JPEG of a
        multiple of that size is decoded at a half, a quarter or an eighth of its own.

    Returns:
      The upright pixels, in the file's own colours.

    Raises:
      BadImage: the file is not a whole, readable image within the limits.
    """
    if not data:
        raise BadImage(EMPTY, "the file has no bytes; upload it again")
    if len(data) > max_file_bytes:
        message = f"{len(data)} bytes, more than max_file_bytes={max_file_bytes}; raise it to allow"
        raise BadImage(TOO_LARGE_FILE, message)
    try:
        with _open_image(data) as image:
            height, width = _header_size(image)
            _check_size(height, width, min_side_px, max_pixels)
            reduction = _choose_reduction(height, width, target_size(height, width))
            return _decode_opened(data, image, (height, width), gray, alpha_background, reduction)
    except DECODER_ERRORS as error:
        reason = TRUNCATED if "truncated" in str(error).lower() else CORRUPT
        raise BadImage(reason, f"the decoder gave up: {error!r}") from error


def _open_image(data: bytes) -> contextlib.AbstractContextManager[Image.Image]:
    """Reads the header, by content. A file of a known format that does not open is damaged."""
    if plain := read_plain_header(data):
        return contextlib.nullcontext(plain)  # type: ignore[arg-type]
    try:
        return Image.open(io.BytesIO(data), formats=_OPENED_FORMATS)
    except Image.UnidentifiedImageError as error:
        if _OTHER_MAGIC.match(data[:4096]):
            message = f"cannot read this kind of image; known are {sorted(set(_FORMATS.values()))}"
            raise BadImage(UNSUPPORTED, message) from error
        if not _READABLE_MAGIC.match(data):
            raise BadImage(NOT_AN_IMAGE, f"no image starts with {data[:8]!r}") from error
        if data.startswith(b"\xff\xd8"):
            read_jpeg_structure(data)  # names the damage where it can
        if data.startswith((b"II*\0", b"MM\0*")):
            directory_offset = int.from_bytes(data[4:8], "little" if data[0] == 0x49 else "big")
            if directory_offset >= len(data):
                message = f"the TIFF ends at byte {len(data)}, before its directory"
                raise BadImage(TRUNCATED, message) from error
            message = "a TIFF that Pillow cannot open: a rare sample layout, or a broken directory"
            raise BadImage(UNSUPPORTED, message) from error
        raise BadImage(CORRUPT, f"the header of this file is damaged: {error}") from error


def _header_size(image: Image.Image) -> tuple[int, int]:
    """Returns (height, width) in pixels as the file has them, before orientation."""
    if image.format == "TIFF" and read_orientation(image)[0] >= 5:
        return image.width, image.height  # Pillow has swapped them already
    return image.height, image.width


def _check_size(height: int, width: int, min_side_px: int, max_pixels: int) -> None:
    if min(height, width) < min_side_px:
        message = f"{width}x{height} px, below min_side_px={min_side_px}; lower it to keep these"
        raise BadImage(TOO_SMALL, message)
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


def _decode_opened(
    data: bytes,
    image: Image.Image,
    size: tuple[int, int],
    gray: bool,
    alpha_background: tuple[int, int, int],
    reduction: int,
) -> DecodedImage:
    """Decodes, then applies alpha and orientation."""
    source_format = _FORMATS[str(image.format)]
    orientation, orientation_notes = read_orientation(image)
    icc = image.info.get("icc_profile") or None
    frames = getattr(image, "n_frames", 1)
    notes = ((f"frames:{frames}",) if frames > 1 else ()) + orientation_notes
    lossless = _is_lossless(image, source_format)
    color, alpha, decoder_notes = _read_pixels(
        data, image, source_format, gray and icc is None, reduction
    )
    source_channels = 1 if image.mode in ("1", "L", "LA", "I;16", "I;16B") else 3
    if alpha is not None:
        # The background is an sRGB colour, so the image has to become sRGB first.
        color, profile_notes = convert_to_srgb(color, icc)
        color, icc = composite(color, alpha, alpha_background), None
        decoder_notes += profile_notes
    if source_format != "tiff":  # both decoders turn TIFFs upright by themselves
        color = orient(color, orientation)
    return DecodedImage(
        pixels=color,
        icc=icc,
        source_format=source_format,
        source_height=size[0],
        source_width=size[1],
        source_channels=source_channels,
        orientation=orientation,
        notes=notes + decoder_notes,
        lossless=lossless,
    )


def _is_lossless(image: Image.Image, source_format: str) -> bool:
    if source_format == "tiff":
        return "jpeg" not in str(image.info.get("compression", "")) and "compression" in image.info
    return source_format in ("png", "bmp", "gif")


def _read_pixels(
    data: bytes, image: Image.Image, source_format: str, luma_only: bool, reduction: int
) -> _Pixels:
    """Chooses the decoder. `luma_only` lets a JPEG skip its colour channels."""
    if source_format == "jpeg":
        return _decode_jpeg(data, image, luma_only, reduction)
    if source_format == "png":
        return _decode_png(data, image)
    if source_format == "tiff" and max(_tiff_bits(image)) > 8:
        return _decode_deep_tiff(data, image)
    return _decode_with_pillow(image)


def _decode_jpeg(data: bytes, image: Image.Image, luma_only: bool, reduction: int) -> _Pixels:
    """Decodes a JPEG of 1, 3 or 4 channels; one without data for every pixel is refused."""
    structure = read_jpeg_structure(data)
    notes = ("arithmetic",) if is_arithmetic(structure) else ()
    if image.mode == "CMYK":
        data = expose_missing_data(data, structure)
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as reopened:
            return _Pixels(np.asarray(reopened), None, (*notes, "cmyk"))
    gray = image.mode == "L" or luma_only
    size = (image.height, image.width)
    pixels, decoder_notes = decode_jpeg(data, structure, size, gray, reduction)
    return _Pixels(_check_decoded(pixels, image, reduction), None, notes + decoder_notes)


# --- PNG, TIFF and the rest ---------------------------------------------------------------------


def _decode_png(data: bytes, image: Image.Image) -> _Pixels:
    """Decodes a PNG of any depth and colour type; OpenCV checks every checksum."""
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if decoded is None and b"IEND" not in data:
        raise BadImage(TRUNCATED, f"the PNG data ends at byte {len(data)} without an end chunk")
    pixels = _split_alpha(_check_decoded(decoded, image))
    transparent = image.info.get("transparency")
    if pixels.color.ndim == 2 and isinstance(transparent, int):
        # OpenCV ignores the transparent level of gray images. The file has it unscaled.
        depth = data[24]
        level = transparent * 255 // (2**depth - 1) if depth < 8 else transparent
        alpha = np.where(decoded == level, 0, 255).astype(np.uint8)
        pixels = pixels._replace(alpha=alpha, notes=(*pixels.notes, "alpha"))
    return pixels


def _decode_deep_tiff(data: bytes, image: Image.Image) -> _Pixels:
    """Decodes a TIFF of 16 bits a sample, of which Pillow would drop 8; refuses the rarer ones."""
    tags = image.tag_v2  # type: ignore[attr-defined]
    sample_format = set(tags.get(339, (1,)))
    layout = (tags.get(262), len(_tiff_bits(image)))
    if set(_tiff_bits(image)) != {16} or sample_format != {1} or layout not in _DEEP_TIFF_LAYOUTS:
        message = (
            f"TIFF of {_tiff_bits(image)} bits, sample format {sorted(sample_format)} and "
            f"photometric {layout[0]}; convert it to 8 or 16 bit unsigned gray or RGB"
        )
        raise BadImage(UNSUPPORTED, message)
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    return _split_alpha(_check_decoded(decoded, image))


# (PhotometricInterpretation, samples): black is zero, RGB, and RGB with alpha.
_DEEP_TIFF_LAYOUTS = ((1, 1), (2, 3), (2, 4))


def _tiff_bits(image: Image.Image) -> tuple[int, ...]:
    return tuple(image.tag_v2.get(258, (1,)))  # type: ignore[attr-defined]


def _check_decoded(pixels: np.ndarray | None, image: Image.Image, reduction: int = 1) -> np.ndarray:
    """Returns OpenCV's pixels, or raises where it gave none, or not those of the header."""
    if pixels is None:
        raise BadImage(CORRUPT, "the compressed data is damaged or ends before the last pixel")
    header = (image.height // reduction, image.width // reduction)
    if pixels.shape[:2] != header:
        message = f"decoded to {pixels.shape[:2]}, but the header says {header}"
        raise BadImage(CORRUPT, message)
    return pixels


def _split_alpha(pixels: np.ndarray) -> _Pixels:
    """Turns OpenCV's [BGR or BGRA] uint8 or uint16 into 8-bit RGB and alpha."""
    notes: tuple[str, ...] = ()
    if pixels.dtype == np.uint16:
        # 65535 = 255 * 257: exact at both ends, where a shift by 8 would darken. Rounded.
        pixels = ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)
        notes = ("16bit",)
    if pixels.ndim == 2:
        return _Pixels(pixels, None, notes)
    if pixels.shape[2] == 4:
        rgb = cv2.cvtColor(pixels, cv2.COLOR_BGRA2RGB)
        return _Pixels(rgb, pixels[:, :, 3], (*notes, "alpha"))
    return _Pixels(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), None, notes)


def _decode_with_pillow(image: Image.Image) -> _Pixels:
    """Decodes the first frame of anything of at most 8 bits a channel."""
    image.load()
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        pixels = np.asarray(image.convert("RGBA"))
        return _Pixels(np.ascontiguousarray(pixels[:, :, :3]), pixels[:, :, 3], ("alpha",))
    if image.mode in ("1", "L"):
        return _Pixels(np.asarray(image.convert("L")), None, ())
    if image.mode == "CMYK":
        return _Pixels(np.asarray(image), None, ("cmyk",))
    if image.mode in ("P", "RGB", "RGBX", "YCbCr"):
        return _Pixels(np.asarray(image.convert("RGB")), None, ())
    raise BadImage(UNSUPPORTED, f"pixels of mode {image.mode}; convert the image to 8-bit RGB")
