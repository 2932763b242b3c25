"""Random steps that move pixels: crops, flips, turns, with masks and boxes.

Eager TensorFlow and XLA round a product and a sum differently (XLA fuses them), and one last bit
decides which pixel a coordinate falls on. So all that is moved works on numbers that no order of
operations rounds: coordinates are made of integers, and taken in steps of 1/256 pixel.
"""

import math
from typing import Literal

import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch, clip_boxes, replace_boxes
from image_pipeline.components.augment.options import (
    FlipHorizontal,
    FlipVertical,
    PadAndCrop,
    Rotate,
)
from image_pipeline.components.dataset.record import IGNORED


def pad_and_crop(batch: Batch, keys: tf.Tensor, options: PadAndCrop) -> Batch:
    """Pads every side, then takes the images' size out of it at random, masks and boxes with them.

    With "reflect" a mask is mirrored with its image, but no box is made for what is mirrored.
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


def flip_horizontal(batch: Batch, keys: tf.Tensor, options: FlipHorizontal) -> Batch:
    """Mirrors some images left to right, with their masks and boxes."""
    return mirror(batch, draws.uniform(keys, 1)[:, 0] < options.probability)


def flip_vertical(batch: Batch, keys: tf.Tensor, options: FlipVertical) -> Batch:
    """Mirrors some images top to bottom, with their masks and boxes."""
    return _reverse(batch, draws.uniform(keys, 1)[:, 0] < options.probability, axis=1)


def mirror(batch: Batch, mirrored: tf.Tensor) -> Batch:
    """Mirrors the chosen images left to right, with their masks and boxes.

    Args:
      batch: the batch.
      mirrored: bool [batch], whether to mirror the image.
    """
    return _reverse(batch, mirrored, axis=2)


def _reverse(batch: Batch, chosen: tf.Tensor, axis: int) -> Batch:
    """Reverses the rows (axis 1) or the columns (axis 2) of the chosen images."""

    def reverse(pixels: tf.Tensor) -> tf.Tensor:
        return tf.where(chosen[:, None, None, None], tf.reverse(pixels, [axis]), pixels)

    masks, boxes = batch.masks, batch.boxes
    if masks is not None:
        masks = reverse(masks)
    if boxes is not None:
        top, left, bottom, right = tf.unstack(boxes, axis=-1)
        sides = (
            (1 - bottom, left, 1 - top, right) if axis == 1 else (top, 1 - right, bottom, 1 - left)
        )
        # Not cut: a mirrored box is as visible as it was.
        boxes = tf.where(chosen[:, None, None], clip_boxes(tf.stack(sides, axis=-1)), boxes)
    return batch._replace(images=reverse(batch.images), masks=masks, boxes=boxes)


def rotate(batch: Batch, keys: tf.Tensor, options: Rotate) -> Batch:
    """Turns every image about its centre by an angle of its own, masks and boxes with it.

    Images are sampled bilinearly, masks take the nearest pixel, and a box becomes the least one
    around its turned corners. With "reflect" a mask is mirrored with its image.
    """
    share = 2 * tf.cast(draws.uniform(keys, 1)[:, 0], tf.float64) - 1
    matrix = inverse_rotation(share * math.radians(options.degrees))
    height, width = batch.images.shape[1:3]
    rows, columns = affine_coordinates(height, width, matrix)
    masks = batch.masks
    if masks is not None:
        masks = warp_nearest(masks, rows, columns, mode=options.mode)
    if batch.boxes is not None:
        batch = replace_boxes(batch, move_boxes(batch.boxes, height, width, matrix))
    images = warp(batch.images, rows, columns, options.mode, options.fill)
    return batch._replace(images=images, masks=masks)


def inverse_rotation(radians: tf.Tensor) -> tf.Tensor:
    """Where a turned image's pixels stand in the image as it was.

    Args:
      radians: float64 [batch], positive counter-clockwise, as in torchvision.

    Returns:
      float64 [batch, 2, 3], see `affine_coordinates`.
    """
    cosine, sine, zero = tf.cos(radians), tf.sin(radians), tf.zeros_like(radians)
    # y points down.
    rows = [tf.stack([cosine, -sine, zero], axis=-1), tf.stack([sine, cosine, zero], axis=-1)]
    return tf.stack(rows, axis=1)


# Steps of a coordinate within a pixel. Two such shares times a level fit float32's 24 bits.
_STEPS = 256
# Coordinates may be this many image sides from the centre.
_REACH = 8


def affine_coordinates(height: int, width: int, matrix: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where the pixels of a moved image stand in the image as it was.

    Args:
      height: of the image, in pixels.
      width: of the image, in pixels.
      matrix: float64 [batch, 2, 3], the inverse of the move, in pixels from the image's centre
        ((width - 1) / 2, (height - 1) / 2): the new pixel (x, y) shows matrix @ (x, y, 1). float64,
        because XLA's sine and TensorFlow's may differ in the last bit: rounded here, both are one.

    Returns:
      Rows and columns, each float32 [batch, height, width].
    """
    # Twice a centre is a whole number. The result fits int32 as far as _REACH sides away.
    bits = 31 - (2 * _REACH * max(height, width) - 1).bit_length()
    fixed = tf.cast(tf.round(tf.cast(matrix, tf.float64) * 2.0**bits), tf.int32)
    x = 2 * tf.range(width)[None, None, :] - (width - 1)
    y = 2 * tf.range(height)[None, :, None] - (height - 1)

    def coordinates(row: int, last: int) -> tf.Tensor:
        along_x, along_y, shift = (fixed[:, row, place, None, None] for place in range(3))
        doubled = along_x * x + (along_y * y + 2 * shift + last * 2**bits)
        return tf.cast(doubled, tf.float32) * 2.0 ** -(bits + 1)

    return coordinates(1, height - 1), coordinates(0, width - 1)


def warp(
    images: tf.Tensor,
    rows: tf.Tensor,
    columns: tf.Tensor,
    mode: Literal["reflect", "constant"],
    fill: int,
) -> tf.Tensor:
    """Samples images at coordinates, bilinearly.

    Args:
      images: uint8 or float32 [batch, height, width, channels].
      rows: float32 [batch, new_height, new_width], rounded to 1/256 pixel; 0 is the middle of the
        first row.
      columns: likewise.
      mode: what stands outside: the image mirrored at its outermost pixels, or `fill`.
      fill: level of all pixels outside, with "constant".

    Returns:
      [batch, new_height, new_width, channels] of the same type. Of floats the last bit may depend
      on whether XLA compiled it.
    """
    if mode == "constant":
        # One pixel all around is enough: farther out is no different.
        images = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=fill)
    height, width = images.shape[1:3]
    row, row_share = _split(_to_steps(rows, height, mode))
    column, column_share = _split(_to_steps(columns, width, mode))
    next_row = tf.minimum(row + 1, height - 1)
    next_column = tf.minimum(column + 1, width - 1)

    def between(row: tf.Tensor) -> tf.Tensor:
        left = tf.cast(_pick(images, row, column), tf.float32)
        right = tf.cast(_pick(images, row, next_column), tf.float32)
        return left * (1 - column_share) + right * column_share

    mixed = between(row) * (1 - row_share) + between(next_row) * row_share
    return tf.cast(tf.round(mixed), tf.uint8) if images.dtype == tf.uint8 else mixed


def warp_nearest(
    masks: tf.Tensor,
    rows: tf.Tensor,
    columns: tf.Tensor,
    fill: int = IGNORED,
    mode: Literal["reflect", "constant"] = "constant",
) -> tf.Tensor:
    """Takes the nearest pixels to some coordinates; half-way, the lower or right one.

    Args:
      masks: uint8 [batch, height, width, channels].
      rows: float32 [batch, new_height, new_width], see `warp`.
      columns: likewise.
      fill: what pixels outside get, with "constant".
      mode: what stands outside, see `warp`.

    Returns:
      uint8 [batch, new_height, new_width, channels].
    """
    if mode == "constant":
        masks = tf.pad(masks, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=fill)
    height, width = masks.shape[1:3]
    nearest_row = (_to_steps(rows, height, mode) + _STEPS // 2) // _STEPS
    nearest_column = (_to_steps(columns, width, mode) + _STEPS // 2) // _STEPS
    return _pick(masks, nearest_row, nearest_column)


def move_boxes(boxes: tf.Tensor, height: int, width: int, matrix: tf.Tensor) -> tf.Tensor:
    """Moves boxes with their images: the least box around the four moved corners.

    Args:
      boxes: float32 [batch, boxes, 4], see `Batch`.
      height: of the image, in pixels.
      width: of the image, in pixels.
      matrix: float64 [batch, 2, 3], as in `affine_coordinates`.

    Returns:
      float64 [batch, boxes, 4], not clipped; a box of no area is all zeros.
    """
    top, left, bottom, right = tf.unstack(tf.cast(boxes, tf.float64), axis=-1)
    # From the centre in pixels. The order of the corners does not matter.
    old_x = (tf.stack([left, right, left, right], axis=-1) - 0.5) * width
    old_y = (tf.stack([top, top, bottom, bottom], axis=-1) - 0.5) * height
    (xx, xy, x0), (yx, yy, y0) = (
        tf.unstack(tf.cast(row, tf.float64)[:, :, None, None], axis=1)
        for row in tf.unstack(matrix, axis=1)
    )
    determinant = xx * yy - xy * yx
    x = (yy * (old_x - x0) - xy * (old_y - y0)) / determinant / width + 0.5
    y = (xx * (old_y - y0) - yx * (old_x - x0)) / determinant / height + 0.5
    lowest, highest = (
        tf.stack([reduce(y, axis=-1), reduce(x, axis=-1)], axis=-1)
        for reduce in (tf.reduce_min, tf.reduce_max)
    )
    # A box that just touches the image from outside must not have an area for a last bit's sake.
    moved = tf.round(tf.concat([lowest, highest], axis=-1) * 2.0**24) * 2.0**-24
    had_area = (bottom > top) & (right > left)
    return tf.where(had_area[..., None], moved, tf.zeros_like(moved))


def _to_steps(
    coordinates: tf.Tensor, length: int, mode: Literal["reflect", "constant"]
) -> tf.Tensor:
    """Coordinates inside an image: int32, in steps of 1/256 pixel.

    Args:
      coordinates: float32, any shape.
      length: of the image, with the padding around it in mode "constant".
      mode: see `warp`.
    """
    steps = tf.cast(tf.round(coordinates * _STEPS), tf.int32)
    last = (length - 1) * _STEPS
    if mode == "constant":
        return tf.clip_by_value(steps + _STEPS, 0, last)
    if not last:
        return tf.zeros_like(steps)
    # One period of the mirrored image.
    return last - tf.abs(last - steps % (2 * last))


def _split(steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The pixel before each coordinate, and the next one's share: float32 [..., 1]."""
    share = tf.cast(steps % _STEPS, tf.float32) / _STEPS
    return steps // _STEPS, share[..., None]


def _pick(images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Pixels at whole coordinates."""
    height, width, channels = images.shape[1:]
    pixels = tf.reshape(images, [-1, height * width, channels])
    # With a pixel's channels packed into one integer, XLA's code is 7 times slower.
    return tf.gather(pixels, rows * width + columns, batch_dims=1)
