"""One stored image to pixels, by the fastest libraries: libjpeg-turbo and OpenCV.

Both let other Python threads run meanwhile. They decode to the very pixels of TensorFlow's accurate
decoder, which serving uses. What they cannot do to the same bits, TensorFlow does here too: it is
imported when that is met, so that all else works without it.
"""

import functools
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import simplejpeg

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.images.jpeg import MANY_SCANS, has_many_scans
from image_pipeline.components.messages import find_line
from image_pipeline.components.threads import usable_cores
from image_pipeline.components.views.jpeg_tiles import cut_part
from image_pipeline.components.views.options import ViewOptions

# To cut tiles out of a JPEG spares more processor time than it takes, but holds Python's lock. With
# more cores than this they would wait for it.
_MOST_CORES = 8


def decode_image(image: StoredImage, channels: int) -> np.ndarray:
    """Decodes a stored image.

    Args:
      image: JPEG, PNG or raw pixels (or whatever else TensorFlow decodes).
      channels: gray is converted to RGB, or the other way, where 3 or 1 ask for it.

    Returns:
      uint8 [height, width, channels], read-only if it is a view of raw pixels. Of those that are
      stored as another type, the stored values; float32, if they are converted.

    Raises:
      ValueError: if it cannot be decoded.
    """
    if image.is_raw:
        return _decode_raw(image, channels)
    encoded = image.encoded
    if has_many_scans(encoded):
        raise ValueError(f"its image is {MANY_SCANS}")
    try:
        if encoded[:2] == b"\xff\xd8":
            return _decode_jpeg(encoded, channels)
    except ValueError:
        # It tolerates some of that, as in serving.
        return _decode_by_tensorflow(encoded, channels)
    if encoded[:4] == b"\x89PNG" and channels == image.channels:
        return _decode_png(encoded, channels)
    return _decode_by_tensorflow(encoded, channels)


def decode_whole(image: StoredImage, channels: int) -> np.ndarray:
    """Decodes as `decode_image`, and checks that the image has the size that its record says.

    Raises:
      ValueError: if it cannot be decoded, or has another size.
    """
    pixels = decode_image(image, channels)
    if pixels.shape[:2] != (image.height, image.width):
        raise ValueError(
            f"its image has {pixels.shape[0]} x {pixels.shape[1]} pixels, not the "
            f"{image.height} x {image.width} in its record"
        )
    return pixels


def decode_window(image: StoredImage, channels: int, window: Sequence[int] | None) -> np.ndarray:
    """Decodes a part of a stored image: the same pixels as a part of `decode_whole`.

    Of a JPEG in tiles only those are decoded that are needed; damage in others is not noticed.

    Args:
      image: as for `decode_image`.
      channels: as for `decode_image`.
      window: top, left, height and width, in pixels, inside the image; None for all of it.

    Returns:
      [window's height, its width, channels].

    Raises:
      ValueError: if it cannot be decoded, or has another size.
    """
    if window is None:
        return decode_whole(image, channels)
    top, left, height, width = window
    pixels = _decode_tiles(image, channels, window)
    if pixels is not None:
        return pixels
    return decode_whole(image, channels)[top : top + height, left : left + width]


def _decode_tiles(image: StoredImage, channels: int, window: Sequence[int]) -> np.ndarray | None:
    if image.is_raw or not _has_few_cores():
        return None
    part = cut_part(image.encoded, (image.height, image.width), window)
    if part is None:
        return None
    try:
        pixels = _decode_jpeg(part.encoded, channels)
    except ValueError:
        return None  # Decoding the whole image reports what is wrong.
    top, left = window[0] - part.top, window[1] - part.left
    return pixels[top : top + window[2], left : left + window[3]]


@functools.cache
def _has_few_cores() -> bool:
    return usable_cores() <= _MOST_CORES


def _decode_jpeg(encoded: bytes | bytearray | memoryview, channels: int) -> np.ndarray:
    # Strict: truncated or damaged data is an error, where OpenCV would fill in gray.
    return simplejpeg.decode_jpeg(encoded, "RGB" if channels == 3 else "GRAY", strict=True)


def _decode_raw(image: StoredImage, channels: int) -> np.ndarray:
    shape = (image.height, image.width, image.channels)
    dtype = np.dtype(image.dtype).newbyteorder("<")
    size_bytes = len(image.encoded)
    if size_bytes != image.height * image.width * image.channels * dtype.itemsize:
        raise ValueError(
            f"it has {size_bytes} bytes, but raw pixels of {image.dtype} of the shape {shape}"
        )
    pixels = np.frombuffer(image.encoded, dtype).reshape(shape)
    if channels == image.channels:
        return pixels
    if {channels, image.channels} != {1, 3}:
        raise ValueError(f"it has {image.channels} channels, not {channels}")
    if image.dtype != "uint8":
        pixels = pixels.astype(np.float32)
    return np.repeat(pixels, 3, axis=-1) if channels == 3 else _make_gray(pixels)


def _decode_png(encoded: bytes | memoryview, channels: int) -> np.ndarray:
    flags = cv2.IMREAD_COLOR_RGB if channels == 3 else cv2.IMREAD_GRAYSCALE
    pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if pixels is None:
        raise ValueError("its image cannot be decoded")
    return pixels.reshape(*pixels.shape[:2], channels)


def decode_mask(encoded: bytes | memoryview, size: tuple[int, int]) -> np.ndarray:
    """Decodes a stored mask.

    Returns:
      uint8 [*size, 1].

    Raises:
      ValueError: if it cannot be decoded, or has another size.
    """
    flags = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
    ids = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags) if len(encoded) else None
    if ids is None or ids.shape != size:
        has = "cannot be decoded" if ids is None else f"has {ids.shape[0]} x {ids.shape[1]} pixels"
        raise ValueError(f"its mask {has}, and should have {size[0]} x {size[1]} pixels")
    return ids[..., None]


def _decode_by_tensorflow(encoded: bytes | memoryview, channels: int) -> np.ndarray:
    """Decodes as `graph.decode_image`: uint8 [height, width, channels].

    Raises:
      ValueError: if it cannot be decoded.
    """
    tf, views = _import_tensorflow("its image is damaged, or of another kind, so that it")
    try:
        with tf.device("/CPU:0"):  # Where serving's bits come from, whatever devices there are.
            return views.decode_image(tf.constant(bytes(encoded)), channels).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(f"its image cannot be decoded ({find_line(str(error))})") from error


def _make_gray(pixels: np.ndarray) -> np.ndarray:
    """Makes gray of RGB as `graph.convert_channels`: [height, width, 1] of the same type."""
    tf, views = _import_tensorflow("its stored colours are to be made gray, and it")
    with tf.device("/CPU:0"):
        return views.convert_channels(tf.constant(pixels), 1).numpy()


def resize_floats(pixels: np.ndarray, view: ViewOptions) -> np.ndarray:
    """Makes the view that `graph.eval_view` makes, of images of floats."""
    tf, views = _import_tensorflow("its pixels are floats that are to be resized, and it")
    with tf.device("/CPU:0"):
        return views.trace_eval_view(view)(tf.constant(pixels, view.dtype)).numpy()


def _import_tensorflow(what: str) -> tuple[Any, Any]:
    try:
        import tensorflow as tf

        from image_pipeline.components.views import graph
    except ImportError as error:
        raise ValueError(f"{what} can only be read where TensorFlow is installed") from error
    return tf, graph
