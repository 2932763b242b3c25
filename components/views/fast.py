"""One stored image to pixels, by the fastest libraries: libjpeg-turbo and OpenCV.

Both let other Python threads run meanwhile. They decode to the very pixels of TensorFlow's accurate
decoder, which serving uses; what they cannot decode, TensorFlow decodes here too.
"""

import functools

import cv2
import numpy as np
import simplejpeg
import tensorflow as tf

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.images.resize import nearest_places
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.fast_resample import resample_window
from image_pipeline.components.views.options import ViewOptions

# Where serving's bits come from, whatever devices the machine has.
_CPU = functools.partial(tf.device, "/CPU:0")


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
    try:
        if encoded[:2] == b"\xff\xd8":
            # Strict: truncated or damaged data is an error, where OpenCV would fill in gray.
            return simplejpeg.decode_jpeg(encoded, "RGB" if channels == 3 else "GRAY", strict=True)
    except ValueError:
        return _decode_by_tensorflow(encoded, channels)  # It tolerates some of that, as in serving.
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
    with _CPU():
        return views.convert_channels(tf.constant(pixels), channels).numpy()


def _decode_png(encoded: bytes | memoryview, channels: int) -> np.ndarray:
    flags = cv2.IMREAD_COLOR_RGB if channels == 3 else cv2.IMREAD_GRAYSCALE
    pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if pixels is None:
        raise ValueError("its image cannot be decoded")
    return pixels.reshape(*pixels.shape[:2], channels)


def _decode_by_tensorflow(encoded: bytes | memoryview, channels: int) -> np.ndarray:
    try:
        with _CPU():
            return views.decode_image(tf.constant(bytes(encoded)), channels).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(f"its image cannot be decoded ({str(error).splitlines()[0]})") from error


def decode_mask(encoded: bytes | memoryview, size: tuple[int, int]) -> np.ndarray:
    """Decodes a stored mask.

    Args:
      encoded: a gray PNG of class ids.
      size: height and width of its image.

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


def crop_and_resize(pixels: np.ndarray, window: np.ndarray, out: np.ndarray) -> None:
    """Cuts a window out of an image, and resizes it bilinearly.

    Not antialiased: it takes a tenth of the time, and random crops of photos are seldom shrunk by
    much.

    Args:
      pixels: [height, width, channels] of any stored type.
      window: int [4]: top, left, height and width, in pixels, inside the image.
      out: `view.dtype` [height_px, width_px, channels], which gets the result.
    """
    top, left, height, width = window
    cropped = pixels[top : top + height, left : left + width]
    if cropped.shape == out.shape:
        out[...] = cropped
        return
    if out.dtype == np.float32:
        cropped = np.ascontiguousarray(cropped, np.float32)
    resized = cv2.resize(cropped, (out.shape[1], out.shape[0]), interpolation=cv2.INTER_LINEAR)
    out[...] = resized.reshape(out.shape)


def view_mask(
    mask: np.ndarray, window: np.ndarray | None, view: ViewOptions, out: np.ndarray
) -> None:
    """Makes the view of a mask that its image has; each pixel gets its nearest one.

    Args:
      mask: uint8 [height, width, 1], class ids.
      window: int [4], see `crop_and_resize`; None for the deterministic view.
      view: the view's size.
      out: uint8 [view.height_px, view.width_px, 1], which gets the result.
    """
    if window is None:
        take_eval_mask_view(mask, view, out)
        return
    top, left, height, width = (int(each) for each in window)
    rows = top + nearest_places(height, out.shape[0])
    columns = left + nearest_places(width, out.shape[1])
    out[...] = mask[rows[:, None], columns]


def take_eval_mask_view(mask: np.ndarray, view: ViewOptions, out: np.ndarray) -> None:
    """Makes the view of a mask that `take_eval_view` makes of its image; as `eval_mask_view`."""
    size = views.resized_size(mask.shape[:2], view)
    target = (view.height_px, view.width_px)
    rows, columns = (
        nearest_places(length, new)[(new - count) // 2 :][:count]
        for length, new, count in zip(mask.shape[:2], size, target, strict=True)
    )
    out[...] = mask[rows[:, None], columns]


def take_eval_view(pixels: np.ndarray, view: ViewOptions, out: np.ndarray) -> None:
    """Makes the deterministic view, the same bits as `views.graph.eval_view`.

    Where nothing is to be resized (stored by their shorter side, with the right `crop_fraction`)
    that is a cut. Images of floats are left to TensorFlow, whose sums are rounded.

    Args:
      pixels: [height, width, channels] of any stored type.
      view: the input's size.
      out: `view.dtype` [view.height_px, view.width_px, view.channels], which gets the result.
    """
    size = pixels.shape[:2]
    resized = views.resized_size(size, view)
    top, left = (resized[0] - view.height_px) // 2, (resized[1] - view.width_px) // 2
    if resized == size:
        out[...] = pixels[top : top + view.height_px, left : left + view.width_px]
    elif pixels.dtype == out.dtype == np.uint8:
        resample_window(pixels, resized, (top, left), out)
    else:
        with _CPU():
            out[...] = views.trace_eval_view(view)(tf.constant(pixels, view.dtype)).numpy()
