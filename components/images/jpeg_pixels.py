"""A JPEG's bytes to pixels, by libjpeg-turbo; what it finds damaged is refused."""

import cv2
import numpy as np
import simplejpeg

from components.images.jpeg import JpegStructure, expose_missing_data

_EXTRA_BYTES = "extraneous bytes"
_UNKNOWN_SAMPLING = "subsampling"


def decode_jpeg(
    data: bytes, structure: JpegStructure, size: tuple[int, int], gray: bool, reduction: int
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Decodes a JPEG of 1 or 3 channels as it lies in the file, orientation not applied.

    Args:
      data: the whole file.
      structure: of the file.
      size: (height, width) in the header, multiples of `reduction`.
      gray: whether its colour is skipped.
      reduction: 1, 2, 4 or 8: how many times smaller than the file it may be decoded.

    Returns:
      uint8 gray [height, width] or RGB [height, width, 3], None where OpenCV decodes and gives up;
      and notes: `extra_bytes` for a file that goes on where its pixels have ended. Some cameras
      write it so, but it may be that damage made the decoder lose its way.

    Raises:
      ValueError: if data is missing or damaged.
    """
    try:
        return _decode(data, size, gray, reduction, strict=True), ()
    except ValueError as error:
        if _EXTRA_BYTES in str(error):
            return _decode(data, size, gray, reduction, strict=False), ("extra_bytes",)
        if _UNKNOWN_SAMPLING in str(error):
            return _decode_rare_sampling(data, structure, size, gray, reduction), ()
        raise


def _decode(
    data: bytes, size: tuple[int, int], gray: bool, reduction: int, strict: bool
) -> np.ndarray:
    """By libjpeg-turbo's own interface, a tenth faster than through OpenCV, in the same bits."""
    pixels = simplejpeg.decode_jpeg(
        data,
        "GRAY" if gray else "RGB",
        min_height=size[0] // reduction,
        min_width=size[1] // reduction,
        min_factor=reduction,
        strict=strict,
    )
    return pixels[:, :, 0] if gray else pixels


def _decode_rare_sampling(
    data: bytes, structure: JpegStructure, size: tuple[int, int], gray: bool, reduction: int
) -> np.ndarray | None:
    """By OpenCV: that interface refuses sampling factors which no encoder uses by itself."""
    flags = cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR_RGB
    exposed = np.frombuffer(expose_missing_data(data, structure), np.uint8)
    pixels = cv2.imdecode(exposed, flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if pixels is None or reduction == 1:
        return pixels
    reduced = (size[1] // reduction, size[0] // reduction)
    return cv2.resize(pixels, reduced, interpolation=cv2.INTER_AREA)
