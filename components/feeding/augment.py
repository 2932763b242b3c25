"""Random views of one image, for training: uint8 in, uint8 out, a seed per record.

Only stateless random ops: a view is a pure function of the record, its seed and the options, and
so is the same on every machine, in every thread and after every restart.
"""

import math
from collections.abc import Mapping

import tensorflow as tf

from components import record, views
from components.feeding import parse
from components.feeding.options import AugmentOptions, ManyViewsOptions
from components.view_options import ViewOptions

# torchvision.transforms.RandomResizedCrop draws up to ten crops before it takes the fallback.
CROP_TRIES = 10


def record_seed(
    seed: int, epoch: tf.Tensor, source_id: tf.Tensor, copy: tf.Tensor | int = 0
) -> tf.Tensor:
    """The seed of one record in one epoch.

    It hangs on the record's id, not on its position, so that a record's view does not change with
    the shuffle window, the batch size or the number of shards.

    Args:
      seed: the training run's seed.
      epoch: int64 scalar, counted from 0.
      source_id: string scalar, the record's id.
      copy: int64 scalar, how often the epoch has drawn the record before.

    Returns:
      int64 [2], a seed for stateless random ops.
    """
    identity = tf.strings.to_hash_bucket_fast(source_id, 2**63 - 1)
    epoch_seed = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    fold_in = tf.random.experimental.stateless_fold_in
    # Its type is a part of a seed: an int32 would give another one.
    return fold_in(fold_in(epoch_seed, identity), tf.cast(copy, tf.int64))


def train_view(
    features: Mapping[str, tf.Tensor],
    seed: tf.Tensor,
    view: ViewOptions,
    options: AugmentOptions,
    many_views: ManyViewsOptions = ManyViewsOptions(),  # noqa: B008 (it is frozen)
    number: tf.Tensor | int = 0,
) -> tf.Tensor:
    """Makes one random view of a record's image.

    Args:
      features: scalars of one parsed record, at least those of `parse.IMAGE_COLUMNS`.
      seed: int [2].
      view: the input's size.
      options: which random steps are taken, and how far they go.
      many_views: which views of an image an epoch has.
      number: int64 scalar, the view's number among them: crop by crop, and with `mirror` each crop
        before its mirror image.

    Returns:
      uint8 [view.height_px, view.width_px, view.channels].
    """
    number = tf.cast(number, tf.int64)
    crop = number // 2 if many_views.mirror else number
    seed = tf.random.experimental.stateless_fold_in(seed, crop)
    crop_seed, flip_seed = tf.unstack(tf.random.split(seed, 2))
    if options.random_resized_crop:
        image = _random_resized_crop(features, crop_seed, view, options)
    else:
        image = views.eval_view(parse.decode_record(features, view.channels), view)
    if many_views.mirror:
        image = tf.cond(number % 2 == 1, lambda: tf.image.flip_left_right(image), lambda: image)
    elif options.flip:
        image = tf.image.stateless_random_flip_left_right(image, flip_seed)
    return tf.ensure_shape(image, [view.height_px, view.width_px, view.channels])


def _random_resized_crop(
    features: Mapping[str, tf.Tensor],
    seed: tf.Tensor,
    view: ViewOptions,
    options: AugmentOptions,
) -> tf.Tensor:
    """Crops at random, then resizes to the input: uint8 [height_px, width_px, channels]."""
    size = tf.stack([features[record.HEIGHT], features[record.WIDTH]])
    window = random_crop_window(size, seed, options)
    cropped = decode_window(features, window, view.channels)
    # Not antialiased: twice as fast, and random crops of photos are seldom shrunk by much.
    return views.resize(cropped, tf.constant([view.height_px, view.width_px]), antialias=False)


def random_crop_window(size: tf.Tensor, seed: tf.Tensor, options: AugmentOptions) -> tf.Tensor:
    """Draws a crop by torchvision's rule (`RandomResizedCrop.get_params`).

    Ten times an area (uniform) and an aspect ratio (uniform in its logarithm) are drawn; the first
    pair that fits the image is placed at random. If none fits, the window is the largest
    central one whose aspect ratio is within the bounds.

    Args:
      size: int [2], the image's height and width in pixels.
      seed: int [2].
      options: bounds of the crop's area and aspect ratio.

    Returns:
      int32 [4]: top, left, height and width of the crop, in pixels.
    """
    shape_seed, place_seed = tf.unstack(tf.random.split(seed, 2))
    image_size = tf.cast(size, tf.float64)
    tried = _draw_crop_sizes(image_size, shape_seed, options)  # [CROP_TRIES, 2]
    fits = tf.reduce_all((tried >= 1) & (tried <= image_size), axis=1)
    place = tf.random.stateless_uniform([2], place_seed, dtype=tf.float64)
    # The corner is one of the room + 1 whole numbers from 0 to room, each as probable.
    drawn, fallback = tried[tf.argmax(fits)], _largest_central_crop_size(image_size, options)
    crop_size = tf.where(tf.reduce_any(fits), drawn, fallback)
    room = image_size - crop_size
    corner = tf.where(tf.reduce_any(fits), tf.floor(place * (room + 1)), tf.floor(room / 2))
    return tf.cast(tf.concat([corner, crop_size], axis=0), tf.int32)


def _draw_crop_sizes(size: tf.Tensor, seed: tf.Tensor, options: AugmentOptions) -> tf.Tensor:
    """Heights and widths of `CROP_TRIES` crops that may not fit: float64 [CROP_TRIES, 2], whole."""
    area_seed, aspect_seed = tf.unstack(tf.random.split(seed, 2))
    least, most = (math.log(aspect) for aspect in options.crop_aspect)
    area = tf.reduce_prod(size) * tf.random.stateless_uniform(
        [CROP_TRIES], area_seed, *options.crop_area, dtype=tf.float64
    )
    aspect = tf.exp(
        tf.random.stateless_uniform([CROP_TRIES], aspect_seed, least, most, dtype=tf.float64)
    )
    return tf.round(tf.stack([tf.sqrt(area / aspect), tf.sqrt(area * aspect)], axis=1))


def _largest_central_crop_size(size: tf.Tensor, options: AugmentOptions) -> tf.Tensor:
    """The largest height and width whose aspect ratio is within bounds: float64 [2], whole."""
    height, width = tf.unstack(size)
    least, most = options.crop_aspect
    largest_height = tf.minimum(height, tf.round(width / least))
    largest_width = tf.minimum(width, tf.round(height * most))
    return tf.maximum(tf.stack([largest_height, largest_width]), 1)


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
