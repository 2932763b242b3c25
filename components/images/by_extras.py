"""Kinds of images whose decoders are extras, opened by content: HEIC, JPEG XL and DICOM.

A decoder is imported with the first file of its kind, and called by name: nothing is registered
with Pillow, so what becomes of a file does not depend on what a process has imported before.
"""

from typing import Any

from image_pipeline.components.extras import find_missing
from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage
from image_pipeline.components.images.dicom import open_dicom
from image_pipeline.components.images.heic import open_heic
from image_pipeline.components.images.jxl import open_jxl
from image_pipeline.components.images.kind import tell_kind

# By the name of the kind, which is the extra's: what it is called, and what else its owner can do.
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
    openers = {"heic": open_heic, "jxl": open_jxl, "dicom": open_dicom}
    return openers[extra](data)
