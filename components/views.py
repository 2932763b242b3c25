"""The deterministic view of an image: one definition for analysis, evaluation and serving.

TensorFlow ops only, because the view must also travel inside the exported SavedModel.
"""

import tensorflow as tf

from components.feeding.options import ViewOptions


def decode_image(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    """Decodes JPEG, PNG, BMP or the first frame of a GIF.

    JPEGs use the accurate inverse DCT: it costs what TensorFlow's default costs, and equals
    libjpeg-turbo, OpenCV and Pillow bit for bit, where the default is 0.8 grey levels too dark.

    Args:
      encoded: string scalar.
      channels: 1 or 3.

    Returns:
      uint8 [height, width, channels].
    """
    image = tf.io.decode_jpeg(encoded, channels=channels, dct_method="INTEGER_ACCURATE")
    image.set_shape([None, None, channels])
    return image


def decode_raw(pixels: tf.Tensor, height: tf.Tensor, width: tf.Tensor, channels: int) -> tf.Tensor:
    """Reshapes the row-major uint8 pixels of a record stored as `raw`.

    Args:
      pixels: string scalar of height * width * channels bytes.
      height: int64 scalar, in pixels.
      width: int64 scalar, in pixels.
      channels: 1 or 3.

    Returns:
      uint8 [height, width, channels].
    """
    return tf.reshape(tf.io.decode_raw(pixels, tf.uint8), tf.stack([height, width, channels]))


def eval_view(image: tf.Tensor, view: ViewOptions) -> tf.Tensor:
    """Resizes the image to cover the input and takes the centre; no randomness.

    An image that already has the input's size comes back untouched. Downscaling is antialiased,
    so that a camera's full-size photo gives nearly the pixels of its stored, smaller copy.

    Args:
      image: uint8 [height, width, channels].
      view: the input's size.

    Returns:
      uint8 [view.height_px, view.width_px, view.channels].
    """
    target = tf.constant([view.height_px, view.width_px])
    size = tf.shape(image)[:2]
    scale = tf.reduce_max(
        tf.cast(target, tf.float64) / view.crop_fraction / tf.cast(size, tf.float64)
    )
    resized_size = tf.maximum(
        tf.cast(tf.round(tf.cast(size, tf.float64) * scale), tf.int32), target
    )
    resized = tf.cond(
        tf.reduce_all(resized_size == size), lambda: image, lambda: resize(image, resized_size)
    )
    top, left = tf.unstack((resized_size - target) // 2)
    cropped = resized[top : top + view.height_px, left : left + view.width_px]
    return tf.ensure_shape(cropped, [view.height_px, view.width_px, view.channels])


def resize(image: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Bilinear, antialiased resize that stays uint8.

    Args:
      image: uint8 [height, width, channels].
      size: int32 [2], new height and width in pixels.

    Returns:
      uint8 [size[0], size[1], channels].
    """
    pixels = tf.image.resize(image, size, method="bilinear", antialias=True)
    return tf.saturate_cast(tf.round(pixels), tf.uint8)
