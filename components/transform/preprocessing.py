"""The default `preprocessing_fn`: per-channel mean and standard deviation, exact to the last digit.

A `preprocessing_fn` holds what needs the whole data set, and nothing else: what concerns one image
belongs to ingest, what is random belongs to feeding. It takes `{"image": uint8 [B, H, W, C],
"label": string [B]}` and returns `{"image": float32 [B, H, W, C], "label": int64 [B]}`.
"""

from collections.abc import Mapping

import tensorflow as tf
import tensorflow_transform as tft

from components.transform import contract, statistics


def standardize(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Gives every channel mean 0 and standard deviation 1 over the analysed images.

    A channel of one constant value has standard deviation 0; it is divided by 1 instead.
    """
    images = inputs[contract.IMAGE_INPUT]
    mean, std = channel_mean_and_std(images)
    mean = statistics.name_statistic("mean", mean)
    std = statistics.name_statistic("std", tf.where(std > 0, std, 1.0))
    centered = tf.cast(images, tf.float32) - tf.cast(mean, tf.float32)
    return {
        contract.IMAGE_OUTPUT: centered / tf.cast(std, tf.float32),
        contract.LABEL_OUTPUT: label_ids(inputs[contract.LABEL_INPUT]),
    }


def channel_mean_and_std(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and (population) standard deviation of each channel over all analysed pixels.

    Pixels are integers, so their sums and sums of squares are accumulated as integers: no digit is
    lost, whatever the order, the sharding and the batch size, up to 10^14 pixels. The deviations
    are taken from the integer nearest below the mean, so that nothing cancels in the division.

    Args:
      images: uint8 [B, H, W, C].

    Returns:
      Two float64 [C], in grey levels.
    """
    pixels = tf.cast(images, tf.int32)
    count = tft.sum(tf.ones_like(pixels[..., :1]))
    total = _sum_pixels(pixels)
    total_squares = _sum_pixels(tf.square(pixels))
    center = total // count
    squares_from_center = total_squares - 2 * center * total + count * tf.square(center)
    mean_from_center = _divide(total - count * center, count)
    variance = _divide(squares_from_center, count) - tf.square(mean_from_center)
    return tf.cast(center, tf.float64) + mean_from_center, tf.sqrt(tf.maximum(variance, 0.0))


def label_ids(labels: tf.Tensor) -> tf.Tensor:
    """Numbers the classes, the most frequent first; -1 for a class that was not analysed.

    Args:
      labels: string [B].

    Returns:
      int64 [B].
    """
    return tft.compute_and_apply_vocabulary(
        labels, default_value=-1, vocab_filename=contract.LABEL_VOCABULARY
    )


def _sum_pixels(pixels: tf.Tensor) -> tf.Tensor:
    """Sums int32 [B, H, W, C] over all batches to int64 [C]; a row's sum always fits an int32."""
    rows = tf.reduce_sum(pixels, axis=2)
    return tft.sum(tf.reduce_sum(tf.cast(rows, tf.int64), axis=1), reduce_instance_dims=False)


def _divide(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    return tf.cast(numerator, tf.float64) / tf.cast(denominator, tf.float64)
