"""The step color_jitter: brightness, contrast, saturation and hue."""

from collections.abc import Callable

import tensorflow as tf

from image_pipeline.components.augment import draws, levels
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import ColorJitter
from image_pipeline.components.augment.per_image import map_images

Part = tuple[Callable[[tf.Tensor, tf.Tensor], tf.Tensor], tf.Tensor]


def color_jitter(batch: Batch, keys: tf.Tensor, options: ColorJitter) -> Batch:
    """Changes brightness, contrast, saturation and hue, in this order.

    Each of the four is torchvision's (`adjust_brightness` and so on), on uint8, with three
    differences: levels are rounded after each of the four (torchvision cuts them off), the mean of
    contrast is a whole number (as in Pillow), and the order is fixed. Factors and shifts are
    multiples of 1 / 4096, so that the four have no error but that rounding, see `levels`.

    Of an image with one channel, only brightness and contrast are changed.

    Args:
      batch: see `Batch`; only its images change.
      keys: uint64 [batch].
      options: how far each of the four goes; 0 leaves it out.
    """
    chances, *numbers = tf.unstack(draws.uniform(keys, 5), axis=1)
    parts = _draw_parts(numbers, options)
    if not parts:
        return batch
    changes = [change for change, _ in parts]

    def jitter(images: tuple, chosen: tf.Tensor, *strengths: tf.Tensor) -> tuple:
        (image,) = images
        for change, strength in zip(changes, strengths, strict=True):
            image = _change_if(chosen[0], change, image, strength)
        return (image,)

    strengths = [strength for _, strength in parts]
    (images,) = map_images(jitter, (batch.images,), chances < options.probability, *strengths)
    return batch._replace(images=images)


def _draw_parts(numbers: list[tf.Tensor], options: ColorJitter) -> list[Part]:
    """The parts that are not left out, each with its factors or shifts, float32 [batch, 1, 1, 1].

    Args:
      numbers: four float32 [batch], uniform in [0, 1).
      options: how far each of the four goes.
    """
    factors = (
        (options.brightness, levels.scale_brightness),
        (options.contrast, levels.scale_contrast),
        (options.saturation, levels.scale_saturation),
    )
    parts: list[Part] = [
        (scale, levels.draw_evenly(number, max(0.0, 1 - strength), 1 + strength))
        for (strength, scale), number in zip(factors, numbers[:3], strict=True)
        if strength > 0
    ]
    if options.hue > 0:
        shifts = levels.draw_evenly(numbers[3], -6 * options.hue, 6 * options.hue)
        parts.append((levels.shift_hue, shifts))
    return parts


def _change_if(
    chosen: tf.Tensor, change: Callable, image: tf.Tensor, strength: tf.Tensor
) -> tf.Tensor:
    """Applies a part in a separate branch.

    XLA would merge several parts into one loop, which computes a pixel's colours anew for each
    channel of each part. It does not merge branches.
    """

    def apply() -> tf.Tensor:
        return tf.cast(change(tf.cast(image, tf.float32), strength), tf.uint8)

    return tf.cond(chosen, apply, lambda: image)
