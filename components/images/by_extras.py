"""Kinds of images whose decoders are extras, opened by content: HEIC, JPEG XL and DICOM.

A decoder is imported with the first file of its kind, and called by name: nothing is registered
with Pillow, so what becomes of a file does not depend on what a process has imported before.
"""

import io
from typing import Any

from PIL import Image

from image_pipeline.components.extras import find_missing
from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)
from image_pipeline.components.images.dicom import open_dicom
from image_pipeline.components.images.jxl import open_jxl
from image_pipeline.components.images.kind import tell_kind

# By the name of the kind, which is the extra's: its name, and the other way out.
_KINDS = {
    "heic": ("HEIC", "heif-dec FILE FILE.png"),
    "jxl": ("JPEG XL", "djxl FILE FILE.png"),
    "dicom": ("DICOM", "dcm2img FILE FILE.png"),
}
ENDINGS = {
    **dict.fromkeys((".heic", ".heif", ".hif"), "heic"),
    **{".jxl": "jxl", ".dcm": "dicom"},
}
"""The extra that reads files named so."""
# HEVC has no three zeros in a row, so these are a download that has ended.
_NO_DATA = bytes(64)
_HEIC_WAY_OUT = "convert it, for example: heif-dec FILE FILE.png"


def open_by_extra(data: bytes) -> Any:
    """Opens a file whose decoder is an extra; None for every other file.

    Returns:
      Pillow's `Image`, or what has its attribute names.

    Raises:
      BadImage: it is damaged, or the extra is not installed.
    """
    extra = tell_kind(data).name
    if extra not in _KINDS:
        return None
    name, convert = _KINDS[extra]
    if missing := find_missing(extra, f"{name} is not read: that"):
        raise BadImage(UNSUPPORTED, f"{missing}, or convert it, for example: {convert}")
    openers = {"heic": _open_heic, "jxl": open_jxl, "dicom": open_dicom}
    return openers[extra](data)


def list_missing() -> list[str]:
    """The extras that are not installed, so that files of their kinds are refused."""
    return [extra for extra in _KINDS if find_missing(extra, "Reading them")]


def _open_heic(data: bytes) -> Image.Image:
    """Opens a HEIC file by pillow-heif: libheif, and libde265 for the pixels.

    Its turns and mirrors (`irot`, `imir`) are applied with the pixels, and EXIF's orientation,
    which says the same again, is not, as the format has it; so the header's orientation is 1.

    Raises:
      BadImage: its boxes are damaged, or it holds no image that is read.
    """
    import pillow_heif

    options = pillow_heif.options
    # The caller's threads use all cores; only the image itself is looked at.
    options.DECODE_THREADS = 1
    options.THUMBNAILS = options.DEPTH_IMAGES = options.AUX_IMAGES = False
    if data.endswith(_NO_DATA):
        raise BadImage(TRUNCATED, "the HEIC file ends with zeros, where its pixels should be")
    try:
        return call_decoder(pillow_heif.HeifImageFile, io.BytesIO(data))
    except BadImage as error:
        raise _explain_heic(error) from error


def load_heic(image: Image.Image) -> tuple[str, ...]:
    """Decodes an opened HEIC file to 8 bits.

    Returns:
      The note `10bit` or `12bit`, if it had more.

    Raises:
      BadImage: the pixels are damaged, or of another size than the header says.
    """
    size, bits = image.size, image.info["bit_depth"]
    try:
        call_decoder(image.load)
    except BadImage as error:
        raise _explain_heic(error) from error
    if image.size != size:
        raise BadImage(CORRUPT, f"decoded to {image.size}, but the header says {size}")
    return (f"{bits}bit",) if bits > 8 else ()


def _explain_heic(error: BadImage) -> BadImage:
    """In the words of ingest what libheif says of a file."""
    if "end of file" in error.message or "Cannot read full" in error.message:
        return BadImage(TRUNCATED, error.message)
    if "not identified" in error.message:
        return BadImage(UNSUPPORTED, f"a HEIF file without an image of HEVC; {_HEIC_WAY_OUT}")
    if "Unsupported" in error.message or "Security limit" in error.message:
        return BadImage(UNSUPPORTED, f"{error.message}; {_HEIC_WAY_OUT}")
    return error
