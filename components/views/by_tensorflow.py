"""What the fast views leave to TensorFlow, as no faster library gives the same bits: on arrays.

The package is imported when one of them is called, so that all else works without it.
"""

from typing import Any

import numpy as np

from image_pipeline.components.messages import find_line
from image_pipeline.components.views.options import ViewOptions


def decode_image(encoded: bytes | memoryview, channels: int) -> np.ndarray:
    """Decodes as `graph.decode_image`: uint8 [height, width, channels].

    Raises:
      ValueError: if it cannot be decoded.
    """
    tf, views = _import("its image is damaged, or of another kind, so that it")
    try:
        with tf.device("/CPU:0"):  # Where serving's bits come from, whatever devices there are.
            return views.decode_image(tf.constant(bytes(encoded)), channels).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(f"its image cannot be decoded ({find_line(str(error))})") from error


def make_gray(pixels: np.ndarray) -> np.ndarray:
    """Makes gray of RGB as `graph.convert_channels`: [height, width, 1] of the same type."""
    tf, views = _import("its stored colours are to be made gray, and it")
    with tf.device("/CPU:0"):
        return views.convert_channels(tf.constant(pixels), 1).numpy()


def take_eval_view(pixels: np.ndarray, view: ViewOptions) -> np.ndarray:
    """Makes the view that `graph.eval_view` makes, of images of floats."""
    tf, views = _import("its pixels are floats that are to be resized, and it")
    with tf.device("/CPU:0"):
        return views.trace_eval_view(view)(tf.constant(pixels, view.dtype)).numpy()


def _import(what: str) -> tuple[Any, Any]:
    try:
        import tensorflow as tf

        from image_pipeline.components.views import graph
    except ImportError as error:
        raise ValueError(f"{what} can only be read where TensorFlow is installed") from error
    return tf, graph
