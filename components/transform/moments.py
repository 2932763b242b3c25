"""Means and standard deviations of pixels.

Of 8 bits they are exact to the last digit: sums and sums of squares are accumulated as integers,
and no digit is lost, whatever the order, the sharding and the batch size. Of floats they are
merged in float64 (Chan et al. 1979), whose last digits depend on these.
"""

import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.components.transform.sums_analyzer import add_sums

_ROUNDING = 1e-12  # relative; float32 values that differ at all differ by 6e-8


def channel_mean_and_std(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and (population) standard deviation of each channel over all analysed pixels.

    Args:
      images: uint8 or float32 [B, H, W, C].

    Returns:
      Two float64 [C], in the images' unit.
    """
    if images.dtype != tf.uint8:
        values = tf.cast(tf.reshape(images, [-1, images.shape[-1]]), tf.float64)
        mean, variance = (
            moment(values, reduce_instance_dims=False, output_dtype=tf.float64)
            for moment in (tft.mean, tft.var)
        )
        std = tf.sqrt(tf.maximum(variance, 0.0))
        # Of equal values the variance is what was rounded, not always 0.
        return mean, tf.where(std <= _ROUNDING * tf.abs(mean), tf.zeros_like(std), std)
    if (sums := add_sums(images)) is not None:
        return mean_and_std_from_sums(*sums)
    pixels = tf.cast(images, tf.int32)
    count = tft.sum(tf.ones_like(pixels[..., :1]))
    return mean_and_std_from_sums(count, _sum_pixels(pixels), _sum_pixels(tf.square(pixels)))


def mean_and_std_from_sums(
    count: tf.Tensor, total: tf.Tensor, total_squares: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Turns sums over pixels into their mean and (population) standard deviation.

    The deviations are taken from the integer nearest below the mean, so nothing cancels in the
    division: (Σx² − 2cΣx + nc²) / n − (mean − c)². Up to 7·10¹³ pixels of 8 bits no integer here
    leaves int64, since 2cΣx is at most 2·255²·n. ImageNet at 224 px is 6·10¹⁰.

    Args:
      count: int64 scalar, n.
      total: int64 [C], Σx.
      total_squares: int64 [C], Σx².

    Returns:
      Two float64 [C], in the unit of x.
    """
    center = total // count
    squares_from_center = total_squares - 2 * center * total + count * tf.square(center)
    mean_from_center = _divide(total - count * center, count)
    variance = _divide(squares_from_center, count) - tf.square(mean_from_center)
    return tf.cast(center, tf.float64) + mean_from_center, tf.sqrt(tf.maximum(variance, 0.0))


def mean_image(images: tf.Tensor) -> tf.Tensor:
    """The mean over all analysed images, of every pixel on its own.

    Args:
      images: uint8 or float32 [B, H, W, C].

    Returns:
      float64 [H, W, C], in the images' unit: of uint8 integer sums, divided once.
    """
    if images.dtype != tf.uint8:
        return tft.mean(tf.cast(images, tf.float64), False, output_dtype=tf.float64)
    total = tft.sum(_sum_batch(tf.cast(images, tf.int32)), reduce_instance_dims=False)
    return _divide(total, tft.sum(tf.ones_like(images[:, 0, 0, 0], tf.int64)))


def _sum_pixels(pixels: tf.Tensor) -> tf.Tensor:
    """Sums int32 [B, H, W, C] over all batches to int64 [C]; a row's sum always fits an int32."""
    rows = tf.reduce_sum(pixels, axis=2)
    return tft.sum(tf.reduce_sum(tf.cast(rows, tf.int64), axis=1), reduce_instance_dims=False)


def _sum_batch(pixels: tf.Tensor) -> tf.Tensor:
    """Sums int32 [B, H, W, C] to int64 [1, H, W, C]; a batch's sum always fits an int32."""
    return tf.cast(tf.reduce_sum(pixels, axis=0, keepdims=True), tf.int64)


def _divide(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    return tf.cast(numerator, tf.float64) / tf.cast(denominator, tf.float64)
