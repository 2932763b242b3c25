"""Orientations stated elsewhere than in EXIF: noted, not applied.

Browsers and TensorFlow's decoders do not look there, so whoever labelled the image saw it as it is
stored, and so will a served model. Pillow, ImageMagick and Lightroom do look.
"""

import re
from typing import Any

from PIL import ExifTags, Image

from image_pipeline.components.images.bad_image import BadImage, call_decoder

# Pillow's names for the chunks and segments that hold XMP.
_XMP_KEYS = ("xmp", "XML:com.adobe.xmp")
_XMP_ORIENTATION = re.compile(rb"tiff:Orientation\s*(?:=\s*[\"']|>)\s*([1-8])\b")
# What ImageMagick writes into a PNG's text: a name, a length, then the profile in hexadecimal.
_RAW_KEYS = ("Raw profile type exif", "Raw profile type APP1")
_RAW_PROFILE = re.compile(r"\s*\w+\s+\d+\s+([0-9a-fA-F\s]*)")


def note_other_orientation(info: dict[Any, Any]) -> tuple[str, ...]:
    """Returns notes on orientations other than 1 that are not in EXIF.

    Args:
      info: what Pillow read of the header.

    Returns:
      `raw_exif_orientation:<n>` and `xmp_orientation:<n>`, each where the file has it.
    """
    return _note("raw_exif", _read_raw_exif(info)) + _note("xmp", _read_xmp(info))


def _note(source: str, orientation: int) -> tuple[str, ...]:
    return (f"{source}_orientation:{orientation}",) if 2 <= orientation <= 8 else ()


def _read_xmp(info: dict[Any, Any]) -> int:
    for key in _XMP_KEYS:
        text = info.get(key)
        text = text.encode() if isinstance(text, str) else text
        # A TIFF's tag may be a number, of as many bytes as it says.
        found = isinstance(text, bytes) and _XMP_ORIENTATION.search(text)
        if found:
            return int(found[1])
    return 1


def _read_raw_exif(info: dict[Any, Any]) -> int:
    for key in _RAW_KEYS:
        found = _RAW_PROFILE.match(str(info.get(key, "")))
        if not found:
            continue
        digits = "".join(found[1].split())
        exif = Image.Exif()
        try:
            call_decoder(exif.load, bytes.fromhex(digits[: len(digits) // 2 * 2]))
            orientation = call_decoder(exif.get, ExifTags.Base.Orientation, 1)
        except BadImage:
            continue
        if isinstance(orientation, int):
            return orientation
    return 1
