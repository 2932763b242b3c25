"""Pixels as they are stored."""

import cv2
import numpy as np

from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage

# libjpeg's JPEG_MAX_DIMENSION.
_JPEG_MAX_SIDE_PX = 65_500
# zlib's level: 3 writes photos within 2 % of the default 6's size in a third of its time.
_PNG_COMPRESSION = 3
# The width of a JPEG's tiles, or half to twice of it: they divide a row of blocks evenly; if none
# does, they are rows. Their markers take one to two percent of the bytes of a photo of 256 px.
_TILE_PX = 64
# Smaller images have too few pixels that a reader could leave out.
_LEAST_TILED_PIXELS = 128 * 128
# Of the blocks (MCUs) that have all of an image's colours: OpenCV stores those at half the
# resolution.
_BLOCK_PX, _COLOR_BLOCK_PX = 8, 16


def encode(pixels: np.ndarray, stored_format: str, jpeg_quality: int) -> bytes:
    """Encodes an image, without metadata.

    Args:
      pixels: uint8 [height, width, 3], RGB, or [height, width], gray; of raw ones any type.
      stored_format: "jpeg" (in tiles, see `views.jpeg_tiles`, if it is large enough), "png" or
        "raw" (row by row).
      jpeg_quality: 1 to 100.

    Raises:
      BadImage: a JPEG of that size there cannot be.
    """
    if stored_format == "raw":
        return pixels.tobytes()
    if stored_format == "jpeg":
        settings = _set_up_jpeg(pixels.shape, jpeg_quality)
    else:
        settings = [cv2.IMWRITE_PNG_COMPRESSION, _PNG_COMPRESSION]
    bgr = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    return cv2.imencode({"jpeg": ".jpg", "png": ".png"}[stored_format], bgr, settings)[1].tobytes()


def _set_up_jpeg(shape: tuple[int, ...], quality: int) -> list[int]:
    if max(shape[:2]) > _JPEG_MAX_SIDE_PX:
        message = f"a JPEG's side has at most {_JPEG_MAX_SIDE_PX} px, not {max(shape[:2])}"
        raise BadImage(UNSUPPORTED, f"{message}; resize it or store png")
    interval = _choose_interval((shape[0], shape[1]), is_gray=len(shape) == 2)
    return [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, interval]


def _choose_interval(size: tuple[int, int], *, is_gray: bool) -> int:
    """The number of blocks from one restart marker to the next; 0 for none.

    Args:
      size: height and width, in pixels.
      is_gray: whether the image has no colours.
    """
    if size[0] * size[1] <= _LEAST_TILED_PIXELS:
        return 0
    block = _BLOCK_PX if is_gray else _COLOR_BLOCK_PX
    in_row, wanted = -(-size[1] // block), _TILE_PX // block
    dividing = [n for n in range(wanted // 2, 2 * wanted + 1) if in_row % n == 0]
    return min(dividing, key=lambda n: abs(n - wanted), default=in_row)
