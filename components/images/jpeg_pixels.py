"""Decodes a JPEG by libjpeg-turbo; refuses what that finds damaged."""

import re

import cv2
import numpy as np
import simplejpeg

from image_pipeline.components.images.bad_image import CORRUPT, TRUNCATED, BadImage, call_decoder
from image_pipeline.components.images.jpeg import JpegStructure, expose_missing_data
from image_pipeline.components.images.jpeg_holes import check_holes, count_last_zeros, lacks_scans

# What libjpeg says if pixels have no data, or wrong data. Its other warnings are about quirks of
# the software that wrote the file (unknown versions, stray bytes between segments).
_DAMAGED = re.compile(r"[Pp]remature end|bad Huffman|before marker 0xd[0-7]|instead of RST")
_DAMAGED_BETWEEN_SCANS = re.compile(r"before marker 0x(c4|da)")
_EXTRA_AT_END = re.compile(r"(\d+) extraneous bytes before marker 0xd9")
# This many of the zeros before the end marker may still belong to the last pixels.
_LAST_ZERO_BYTES = 8


def decode_jpeg(
    data: bytes, structure: JpegStructure, size: tuple[int, int], gray: bool, reduction: int
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Decodes a JPEG of 1 or 3 channels as it lies in the file, orientation not applied.

    Args:
      data: the whole file.
      size: (height, width) in the header, multiples of `reduction`.
      gray: whether to skip its colour.
      reduction: 1, 2, 4 or 8: how many times smaller than the file it may be decoded.

    Returns:
      uint8 gray [height, width] or RGB [height, width, 3], None where OpenCV decodes and gives up;
      and notes: `extra_bytes` for a file that goes on where its pixels have ended. Some cameras
      write it so, but it may be that damage made the decoder lose its way. `missing_scans` for a
      progressive file that ends before its last details.

    Raises:
      BadImage: data is missing or damaged.
    """
    pixels: np.ndarray | None = None
    notes: tuple[str, ...] = ("missing_scans",) if lacks_scans(data, structure) else ()
    try:
        pixels = _decode_strictly(data, size, gray, reduction)
        remark = ""
    except BadImage as error:
        remark = error.message
        has_scans = structure.scan_count > 1
        if _DAMAGED.search(remark) or (has_scans and _DAMAGED_BETWEEN_SCANS.search(remark)):
            raise
    extra = _EXTRA_AT_END.search(remark)
    check_holes(data, structure, left_over=int(extra[1]) if extra else 0)
    if extra:
        _check_extra_bytes(data, structure, int(extra[1]), bool(notes))
        notes += ("extra_bytes",)
    if remark:
        pixels = _decode_leniently(data, structure, size, gray, reduction)
    return pixels, notes


def _check_extra_bytes(
    data: bytes, structure: JpegStructure, extra_bytes: int, lacks_scans: bool
) -> None:
    """Refuses a file whose surplus bytes show that data is missing.

    Padding begins where the pixels have ended. Zeros that the decoder took for the last pixels, or
    whatever stands in place of scans that never came, are no padding.
    """
    if lacks_scans:
        message = (
            f"its last scans are missing, {extra_bytes} bytes of something else in their place"
        )
        raise BadImage(TRUNCATED, f"the JPEG data is whole only in part: {message}")
    zeros = count_last_zeros(data, structure)
    if zeros - extra_bytes >= _LAST_ZERO_BYTES:
        message = f"{zeros} zero bytes before the end, of which {zeros - extra_bytes} as pixels"
        raise BadImage(CORRUPT, f"the JPEG data breaks off: {message}")


def _decode_strictly(data: bytes, size: tuple[int, int], gray: bool, reduction: int) -> np.ndarray:
    """By libjpeg-turbo's own interface: a tenth faster than through OpenCV, with the same bits.

    It stops at any warning of libjpeg, and knows only the sampling factors that encoders use.
    """
    pixels = call_decoder(
        simplejpeg.decode_jpeg,
        data,
        "GRAY" if gray else "RGB",
        min_height=size[0] // reduction,
        min_width=size[1] // reduction,
        min_factor=reduction,
        strict=True,
        errors=(ValueError,),
    )
    return pixels[:, :, 0] if gray else pixels


def _decode_leniently(
    data: bytes, structure: JpegStructure, size: tuple[int, int], gray: bool, reduction: int
) -> np.ndarray | None:
    """By OpenCV, which ignores warnings, but not missing data in files with one scan."""
    flags = cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR_RGB
    exposed = np.frombuffer(expose_missing_data(data, structure), np.uint8)
    flags |= cv2.IMREAD_IGNORE_ORIENTATION
    pixels = call_decoder(cv2.imdecode, exposed, flags, errors=(cv2.error,))
    if pixels is None or reduction == 1:
        return pixels
    reduced = (size[1] // reduction, size[0] // reduction)
    return cv2.resize(pixels, reduced, interpolation=cv2.INTER_AREA)
