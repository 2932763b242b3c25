"""What a file's header says of its image, or a `BadImage` that says why it does not open."""

import contextlib
import io
import re
from dataclasses import dataclass

from PIL import Image

from components.images.bad_image import CORRUPT, NOT_AN_IMAGE, TRUNCATED, UNSUPPORTED, BadImage
from components.images.color import read_orientation
from components.images.jpeg import read_jpeg_structure, read_plain_header

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
# Images that are not read: Photoshop, JPEG 2000, JPEG XL, HEIC, OpenEXR, SVG.
_OTHER_MAGIC = re.compile(
    rb"8BPS|\0\0\0\x0cjP  |\xff\x4f\xff\x51|\0\0\0\x0cJXL |\xff\x0a|....ftyp(?:hei|hev|mif|msf)"
    rb"|v/1\x01|\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg\b",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of an image before its pixels are decoded."""

    source_format: str
    """`jpeg`, `png`, `webp`, `tiff`, `bmp`, `gif` or `avif`, by content."""
    height: int
    """Before orientation, in pixels."""
    width: int
    channels: int
    """1 for gray, 3 for colour; alpha is not counted."""
    orientation: int
    """EXIF orientation, 1 to 8."""
    icc: bytes | None
    """Colour profile; None means sRGB."""
    lossless: bool
    """False where the file's own compression has already cost detail."""
    notes: tuple[str, ...]
    """What is unusual."""


def open_image(data: bytes) -> contextlib.AbstractContextManager[Image.Image]:
    """Reads the header, by content. A file of a known format that does not open is damaged."""
    if plain := read_plain_header(data):
        return contextlib.nullcontext(plain)  # type: ignore[arg-type]
    try:
        return Image.open(io.BytesIO(data), formats=_OPENED_FORMATS)
    except Image.UnidentifiedImageError as error:
        raise _explain_unopened(data, error) from error


def _explain_unopened(data: bytes, error: Image.UnidentifiedImageError) -> BadImage:
    """Tells a kind of image that is not read from a damaged one, and from what is no image."""
    if _OTHER_MAGIC.match(data[:4096]):
        known = sorted(set(_FORMATS.values()))
        return BadImage(UNSUPPORTED, f"cannot read this kind of image; known are {known}")
    if not _READABLE_MAGIC.match(data):
        return BadImage(NOT_AN_IMAGE, f"no image starts with {data[:8]!r}")
    if data.startswith(b"\xff\xd8"):
        read_jpeg_structure(data)  # raises, with the damage's name, where it can
    if data.startswith((b"II*\0", b"MM\0*")):
        return _explain_tiff(data)
    return BadImage(CORRUPT, f"the header of this file is damaged: {error}")


def _explain_tiff(data: bytes) -> BadImage:
    directory_offset = int.from_bytes(data[4:8], "little" if data[0] == 0x49 else "big")
    if directory_offset >= len(data):
        message = f"the TIFF ends at byte {len(data)}, before its directory"
        return BadImage(TRUNCATED, message)
    message = "a TIFF that Pillow cannot open: a rare sample layout, or a broken directory"
    return BadImage(UNSUPPORTED, message)


def read_size(image: Image.Image) -> tuple[int, int]:
    """Returns (height, width) in pixels as the file has them, before orientation."""
    if image.format == "TIFF" and read_orientation(image)[0] >= 5:
        return image.width, image.height  # Pillow has swapped them already
    return image.height, image.width


def read_header(image: Image.Image) -> Header:
    """Reads all that an opened image's header says. Counting frames may read the whole file."""
    source_format = _FORMATS[str(image.format)]
    height, width = read_size(image)
    orientation, notes = read_orientation(image)
    frames = getattr(image, "n_frames", 1)
    return Header(
        source_format=source_format,
        height=height,
        width=width,
        channels=1 if image.mode in ("1", "L", "LA", "I;16", "I;16B") else 3,
        orientation=orientation,
        icc=image.info.get("icc_profile") or None,
        lossless=_is_lossless(image, source_format),
        notes=((f"frames:{frames}",) if frames > 1 else ()) + notes,
    )


def _is_lossless(image: Image.Image, source_format: str) -> bool:
    if source_format == "tiff":
        return "jpeg" not in str(image.info.get("compression", "")) and "compression" in image.info
    return source_format in ("png", "bmp", "gif")
