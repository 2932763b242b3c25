"""Views record by record, of TensorFlow's ops alone: what travels to a tf.data service's workers.

Everything else is viewed by `view_batches`, in a third of the time. The deterministic view is the
same there and here; of a random crop a pixel may differ by one level, as OpenCV resizes in whole
numbers.
"""

from collections.abc import Mapping

import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions


def view_record(
    features: Mapping[str, tf.Tensor], window: tf.Tensor | None, view: ViewOptions
) -> tf.Tensor:
    """Makes one view of a record's image.

    Args:
      features: scalars of one parsed record, at least those of `parse.IMAGE_COLUMNS`.
      window: int32 [4], the crop that becomes the view; None for the deterministic view.
      view: the input's size.

    Returns:
      uint8 [view.height_px, view.width_px, view.channels].
    """
    if window is None:
        return views.eval_view(parse.decode_record(features, view.channels), view)
    cropped = decode_window(features, window, view.channels)
    size = tf.constant([view.height_px, view.width_px])
    resized = views.resize(cropped, size)
    return tf.ensure_shape(resized, [view.height_px, view.width_px, view.channels])


def decode_window(features: Mapping[str, tf.Tensor], window: tf.Tensor, channels: int) -> tf.Tensor:
    """Decodes a part of a record's image.

    Args:
      features: scalars of one parsed record, at least those of `parse.IMAGE_COLUMNS`.
      window: int32 [4]: top, left, height and width, in pixels, inside the image.
      channels: 1 or 3.

    Returns:
      uint8 [height, width, channels], the same pixels as decoding everything and then cropping.
    """
    encoded = features[record.IMAGE]
    # Of a JPEG only the rows and blocks inside the window are decoded; other formats know no parts.
    cropped = tf.cond(
        tf.io.is_jpeg(encoded) & ~parse.is_raw(features),
        lambda: tf.io.decode_and_crop_jpeg(
            encoded, window, channels=channels, dct_method="INTEGER_ACCURATE"
        ),
        lambda: _crop(parse.decode_record(features, channels), window),
    )
    return tf.ensure_shape(cropped, [None, None, channels])


def _crop(image: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Cuts a window (int32 [4]: top, left, height, width) out of an image."""
    top, left, height, width = tf.unstack(window)
    return image[top : top + height, left : left + width]
