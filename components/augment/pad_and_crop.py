"""Shifts images a few pixels, as torchvision's RandomCrop with a padding does."""

import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.boxes import replace_boxes
from image_pipeline.components.augment.options import PadAndCrop
from image_pipeline.components.dataset.record import IGNORED


def pad_and_crop(batch: Batch, keys: tf.Tensor, options: PadAndCrop) -> Batch:
    """Pads every side, then takes the images' size out of it at random, masks and boxes with them.

    With "reflect" a mask is mirrored with its image, but no box is made for what is mirrored.

    Args:
      batch: the batch.
      keys: uint64 [batch].
      options: how wide the padding is, and what it shows.
    """
    pad_px = options.find_pad_px(*batch.images.shape[1:3])
    # What stands in the first row and column; negative in the padding.
    starts = tf.cast(draws.uniform(keys, 2) * (2 * pad_px + 1), tf.int32) - pad_px
    masks = batch.masks
    if masks is not None:
        masks = _shift(masks, starts, options, IGNORED)
    if batch.boxes is not None:
        size = tf.constant(batch.images.shape[1:3].as_list(), tf.float64)
        shares = tf.cast(starts, tf.float64) / size
        # float64, for XLA may divide by a constant otherwise than TensorFlow.
        moved = tf.cast(batch.boxes, tf.float64) - tf.tile(shares, [1, 2])[:, None]
        batch = replace_boxes(batch, moved)
    images = _shift(batch.images, starts, options, options.fill)
    return batch._replace(images=images, masks=masks)


def _shift(pixels: tf.Tensor, starts: tf.Tensor, options: PadAndCrop, fill: int) -> tf.Tensor:
    """Takes the image's size out of each padded image.

    Args:
      pixels: [batch, height, width, channels], of any type.
      starts: int32 [batch, 2], the first row and column.
      options: the mode of padding.
      fill: level of a constant padding.

    Returns:
      [batch, height, width, channels] of the same type.
    """
    height, width, channels = pixels.shape[1:]
    row = tf.range(height) + starts[:, :1]
    column = tf.range(width) + starts[:, 1:]
    places = _mirror(row, height)[:, :, None] * width + _mirror(column, width)[:, None, :]
    shifted = tf.gather(tf.reshape(pixels, [-1, height * width, channels]), places, batch_dims=1)
    if options.mode == "reflect":
        return shifted
    inside = _is_inside(row, height)[:, :, None] & _is_inside(column, width)[:, None, :]
    return tf.where(inside[..., None], shifted, tf.constant(fill, pixels.dtype))


def _mirror(places: tf.Tensor, length: int) -> tf.Tensor:
    """Rows or columns outside, mirrored at the outermost ones as often as it takes."""
    last = length - 1
    return tf.zeros_like(places) if not last else last - tf.abs(last - places % (2 * last))


def _is_inside(places: tf.Tensor, length: int) -> tf.Tensor:
    return (places >= 0) & (places < length)
