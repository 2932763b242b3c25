"""The deterministic view of an image: one definition for analysis, evaluation and serving.

TensorFlow ops only, because the view must also travel inside the exported SavedModel.
"""

import functools

import tensorflow as tf

from image_pipeline.components.views.options import ViewOptions
from image_pipeline.components.views.resample import resample_floats, resample_window


def decode_image(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    """Decodes JPEG, PNG, BMP, or the first frame of a GIF.

    JPEGs use the accurate inverse DCT: it costs what TensorFlow's default costs, and equals
    libjpeg-turbo, OpenCV and Pillow bit for bit, where the default is 0.8 grey levels too dark.
    Like every TensorFlow decoder it ignores a photo's EXIF orientation.

    Args:
      encoded: string scalar.
      channels: 1 or 3.

    Returns:
      uint8 [height, width, channels].
    """
    # `decode_jpeg` reads PNG as well, but neither BMP nor animated GIF; `decode_image` reads those,
    # but as three channels only, and has no `dct_method`.
    is_png = tf.strings.substr(encoded, 0, 4) == b"\x89PNG"
    image = tf.cond(
        tf.io.is_jpeg(encoded) | is_png,
        lambda: tf.io.decode_jpeg(encoded, channels=channels, dct_method="INTEGER_ACCURATE"),
        lambda: convert_channels(
            tf.io.decode_image(encoded, channels=3, expand_animations=False), channels
        ),
    )
    return tf.ensure_shape(image, [None, None, channels])


def decode_raw(
    pixels: tf.Tensor,
    height: tf.Tensor,
    width: tf.Tensor,
    channels: tf.Tensor | int,
    dtype: tf.DType = tf.uint8,
) -> tf.Tensor:
    """Reshapes the row-major pixels of a record stored as `raw`.

    Args:
      pixels: string scalar of height * width * channels values.
      height: int64 scalar, in pixels.
      width: int64 scalar, in pixels.
      channels: int64 scalar (or an int), of the stored pixels.
      dtype: of the stored values.

    Returns:
      `dtype` [height, width, channels].
    """
    return tf.reshape(tf.io.decode_raw(pixels, dtype), tf.stack([height, width, channels]))


def convert_channels(image: tf.Tensor, channels: int) -> tf.Tensor:
    """Makes grey of colour, or three equal channels of grey; an image that fits is left alone.

    Args:
      image: uint8 or float32 [height, width, 1 or 3]; the number of channels may be known only at
        run time.
      channels: 1 or 3; any other number is what the image has to have.

    Returns:
      [height, width, channels] of the same type.
    """
    if image.shape[-1] == channels:
        return image
    if channels not in (1, 3):
        return tf.ensure_shape(image, [None, None, channels])
    has_them = tf.shape(image)[-1] == channels
    if channels == 3:
        converted = tf.cond(has_them, lambda: image, lambda: tf.repeat(image, 3, axis=-1))
    else:
        converted = tf.cond(has_them, lambda: image, lambda: tf.image.rgb_to_grayscale(image))
    return tf.ensure_shape(converted, [None, None, channels])


def eval_view(image: tf.Tensor, view: ViewOptions) -> tf.Tensor:
    """Resizes the image to cover the input and takes the centre; no randomness.

    An image that already has the input's size comes back untouched. Downscaling is antialiased,
    so that a camera's full-size photo gives nearly the pixels of its stored, smaller copy.

    Args:
      image: `view.dtype` [height, width, channels].
      view: the input's size.

    Returns:
      `view.dtype` [view.height_px, view.width_px, view.channels].
    """
    target = tf.constant([view.height_px, view.width_px])
    size = tf.shape(image)[:2]
    resized_size, offset = _place_view(size, target, view)
    window = (view.height_px, view.width_px)
    resample = resample_window if image.dtype == tf.uint8 else resample_floats
    cropped = tf.cond(
        tf.reduce_all(resized_size == size),
        lambda: tf.slice(image, [*tf.unstack(offset), 0], [*window, view.channels]),
        lambda: resample(image, resized_size, offset, window),
    )
    return tf.ensure_shape(cropped, [view.height_px, view.width_px, view.channels])


def squeeze(image: tf.Tensor, size_px: int, enlarge: bool) -> tf.Tensor:
    """Distorts an image to a square, as ingest does with `resize: exact`.

    Args:
      image: uint8 or float32 [height, width, channels], the channels known.
      size_px: the square's side.
      enlarge: whether an image with a smaller side is distorted too; else it comes back untouched.

    Returns:
      [size_px, size_px, channels] of the same type, or the image itself.
    """
    size, square = tf.shape(image)[:2], tf.constant([size_px, size_px])
    is_kept = tf.reduce_all(size == square) | (tf.reduce_min(size) < (0 if enlarge else size_px))
    resample = resample_window if image.dtype == tf.uint8 else resample_floats
    return tf.cond(
        is_kept,
        lambda: image,
        lambda: resample(image, square, tf.zeros_like(square), (size_px, size_px)),
    )


@functools.cache
def trace_eval_view(view: ViewOptions) -> tf.types.experimental.GenericFunction:
    """`eval_view` as a graph of its own, traced once for all that call it in a process."""

    def take(image: tf.Tensor) -> tf.Tensor:
        return eval_view(image, view)

    spec = tf.TensorSpec([None, None, view.channels], view.dtype)
    return tf.function(take, input_signature=[spec], autograph=False)


def eval_mask_view(mask: tf.Tensor, view: ViewOptions) -> tf.Tensor:
    """Makes the view of a mask that `eval_view` makes of its image: each pixel's nearest one.

    Args:
      mask: uint8 [height, width, 1], class ids.
      view: the input's size.

    Returns:
      uint8 [view.height_px, view.width_px, 1].
    """
    target = tf.constant([view.height_px, view.width_px])
    size = tf.shape(mask)[:2]
    resized_size, offset = _place_view(size, target, view)
    return take_nearest(mask, size, resized_size, offset, view)


def take_nearest(
    mask: tf.Tensor, size: tf.Tensor, resized_size: tf.Tensor, offset: tf.Tensor, view: ViewOptions
) -> tf.Tensor:
    """Cuts a view out of a mask that is resized by its nearest pixels, in whole numbers.

    Args:
      mask: uint8 [height, width, 1].
      size: int32 [2], its height and width.
      resized_size: int32 [2], of the resized mask.
      offset: int32 [2], top and left of the view in it.
      view: the view's size.

    Returns:
      uint8 [view.height_px, view.width_px, 1].
    """
    for axis, count in enumerate((view.height_px, view.width_px)):
        length, new = (tf.cast(each[axis], tf.int64) for each in (size, resized_size))
        middle = 2 * (tf.range(count, dtype=tf.int64) + tf.cast(offset[axis], tf.int64)) + 1
        mask = tf.gather(mask, middle * length // (2 * new), axis=axis)
    return tf.ensure_shape(mask, [view.height_px, view.width_px, 1])


def _place_view(
    size: tf.Tensor, target: tf.Tensor, view: ViewOptions
) -> tuple[tf.Tensor, tf.Tensor]:
    """The sizes, int32 [..., 2], to which images are resized, and where in them views begin."""
    # The same arithmetic as in `options.resized_size`, in the graph.
    scale = tf.reduce_max(
        tf.cast(target, tf.float64) / view.crop_fraction / tf.cast(size, tf.float64),
        axis=-1,
        keepdims=True,
    )
    resized = tf.maximum(tf.cast(tf.round(tf.cast(size, tf.float64) * scale), tf.int32), target)
    return resized, (resized - target) // 2


def place_views(sizes: tf.Tensor, view: ViewOptions) -> tuple[tf.Tensor, tf.Tensor]:
    """Where `eval_view` cuts views out of images, as shares of the images' sides.

    Args:
      sizes: int [batch, 2], the images' heights and widths in pixels.
      view: the input's size.

    Returns:
      Top and left, and height and width: float64 [batch, 2] each.
    """
    target = tf.constant([view.height_px, view.width_px])
    resized, offsets = (tf.cast(each, tf.float64) for each in _place_view(sizes, target, view))
    return offsets / resized, tf.cast(target, tf.float64) / resized
