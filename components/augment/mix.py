"""Mixes each image with its partner, and their labels by the shares."""

import functools

import numpy as np
import scipy.special
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch, Rectangles, is_covered
from image_pipeline.components.augment.options import CutMix, Mixup

# A share is a multiple of 2**-16: times a level, it fits float32's 24 bits, so nothing is rounded
# but the result.
_SHARE_BITS = 16
# The table of quantiles has 2**10 steps. A random number's other 14 bits lie between two of them.
_TABLE_BITS = 10
_BETWEEN_BITS = 14


def mixup(batch: Batch, keys: tf.Tensor, options: Mixup) -> Batch:
    """Blends each image with its partner, as torchvision's MixUp does for a whole batch at once.

    Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2017. Every image draws its own
    share, which may be the smaller one, as in the paper. An image without a partner, the last of an
    odd batch, is not mixed.

    Raises:
      ValueError: if there are masks or boxes.
    """
    if batch.masks is not None:
        raise ValueError(
            "mixup needs images without masks, which cannot be blended, got masks; use cutmix, "
            "which moves a mask's part with the image's, or leave mixup out."
        )
    _check_no_boxes(batch, "mixup")
    numbers = draws.uniform(keys, 2)
    is_mixed = (numbers[:, 0] < options.probability) & has_partner(keys)
    share = tf.where(is_mixed, draw_shares(numbers[:, 1], options.alpha), 1.0)
    own, partner = batch.images, partner_of(batch.images)
    weight = share[:, None, None, None]
    mixed = weight * tf.cast(own, tf.float32) + (1 - weight) * tf.cast(partner, tf.float32)
    images = tf.cast(tf.round(mixed), tf.uint8) if own.dtype == tf.uint8 else mixed
    return batch._replace(images=images, own_share=_compose(batch.own_share, share))


def cutmix(batch: Batch, keys: tf.Tensor, options: CutMix) -> Batch:
    """Lays a rectangle of its partner over each image, by the rule of torchvision's CutMix.

    Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
    Features", 2019. The rectangle has the image's aspect ratio and, before it is cut at the image's
    edges, the partner's share of the area; its centre is any pixel. Every image draws its own.
    Masks are cut like images. An image without a partner stays whole.

    Raises:
      ValueError: if there are boxes.
    """
    _check_no_boxes(batch, "cutmix")
    height, width = batch.images.shape[1:3]
    numbers = draws.uniform(keys, 4)
    is_mixed = (numbers[:, 0] < options.probability) & has_partner(keys)
    shares = tf.where(is_mixed, draw_shares(numbers[:, 1], options.alpha), 1.0)
    rectangles = _cut_out(shares, numbers[:, 2] * height, numbers[:, 3] * width, height, width)
    covered = is_covered(height, width, rectangles)
    images = tf.where(covered, partner_of(batch.images), batch.images)
    masks = batch.masks
    if masks is not None:
        masks = tf.where(covered, partner_of(masks), masks)
    top, left, bottom, right = rectangles
    area = tf.cast((bottom - top) * (right - left), tf.float64)
    left_over = 1 - area / (height * width)
    return batch._replace(
        images=images, masks=masks, own_share=_compose(batch.own_share, left_over)
    )


def draw_shares(numbers: tf.Tensor, alpha: float) -> tf.Tensor:
    """Turns evenly spread numbers into numbers spread by Beta(alpha, alpha).

    By a table of the distribution's quantiles, in whole numbers, which nothing rounds differently.

    Args:
      numbers: float32 [batch] in [0, 1), multiples of 2**-24.
      alpha: both parameters of the distribution.

    Returns:
      float32 [batch] in [0, 1], multiples of 2**-16.
    """
    table = tf.constant(_quantiles(alpha))
    place = tf.cast(numbers * 2.0 ** (_TABLE_BITS + _BETWEEN_BITS), tf.int32)
    step, between = place // 2**_BETWEEN_BITS, place % 2**_BETWEEN_BITS
    lower, upper = tf.gather(table, step), tf.gather(table, step + 1)
    shares = lower * (2**_BETWEEN_BITS - between) + upper * between
    rounded = (shares + 2 ** (_BETWEEN_BITS - 1)) // 2**_BETWEEN_BITS
    return tf.cast(rounded, tf.float32) * 2.0**-_SHARE_BITS


@functools.cache
def _quantiles(alpha: float) -> np.ndarray:
    """Quantiles of Beta(alpha, alpha) at even steps, in units of 2**-16: int32 [steps + 1].

    For an alpha over 1 the quantiles of 0 and 1 lie far outside the rest, and a line from there
    would make too many extreme shares. So the outermost are put where the outermost steps get
    their right mean, which is betainc(alpha + 1, alpha, q) / 2 divided by a step.
    """
    steps = 2**_TABLE_BITS
    quantiles = scipy.special.betaincinv(alpha, alpha, np.linspace(0, 1, steps + 1))
    mean = scipy.special.betainc(alpha + 1, alpha, quantiles[1]) / 2 * steps
    quantiles[0] = max(2 * mean - quantiles[1], 0)
    quantiles[-1] = 1 - quantiles[0]
    return np.round(quantiles * 2**_SHARE_BITS).astype(np.int32)


def _cut_out(
    shares: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, height: int, width: int
) -> Rectangles:
    """Rectangles that leave an image such shares, cut at its edges.

    Args:
      shares: float32 [batch], what is left of the image.
      rows: float32 [batch], the centres' rows; rounded down, likewise the columns.
      columns: float32 [batch].
      height: of the image, in pixels.
      width: of the image, in pixels.
    """
    half_share = 0.5 * tf.sqrt(1 - tf.cast(shares, tf.float64))
    row, column = tf.cast(rows, tf.int32), tf.cast(columns, tf.int32)
    half_height = tf.cast(half_share * height, tf.int32)
    half_width = tf.cast(half_share * width, tf.int32)
    return Rectangles(
        tf.maximum(row - half_height, 0),
        tf.maximum(column - half_width, 0),
        tf.minimum(row + half_height, height),
        tf.minimum(column + half_width, width),
    )


def _compose(before: tf.Tensor | None, share: tf.Tensor) -> tf.Tensor:
    """The images' own shares after a mixing.

    Args:
      before: float32 [batch], their own shares until then; None if nothing was mixed.
      share: float [batch], what this mixing left of each image. 1 where there is no partner.

    Returns:
      float32 [batch]. The partner has brought the image's own part back, as far as it had it. In
      float64 until then, for XLA fuses a product and a sum, which rounds otherwise.
    """
    share = tf.cast(share, tf.float64)
    if before is not None:
        own = tf.cast(before, tf.float64)
        share = share * own + (1 - share) * (1 - partner_of(own))
    return tf.cast(share, tf.float32)


def _check_no_boxes(batch: Batch, step: str) -> None:
    if batch.boxes is not None:
        raise ValueError(
            f"{step} needs images without boxes, whose objects would be mixed too, got boxes; "
            f"leave {step} out."
        )


def mix_labels(class_ids: tf.Tensor, own_share: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Gives each image its own class and its partner's, by their shares.

    Args:
      class_ids: int64 [batch]; -1, no class, adds nothing.
      own_share: float32 [batch], see `Batch`.
      num_classes: how many classes there are.

    Returns:
      float32 [batch, num_classes].
    """
    return mix_rows(tf.one_hot(class_ids, num_classes), own_share)


def mix_rows(own: tf.Tensor, own_share: tf.Tensor) -> tf.Tensor:
    """Mixes what each image has with what its partner has: float32 [batch, ...], as `own`."""
    share = tf.reshape(own_share, [-1] + [1] * (own.shape.rank - 1))
    return share * own + (1 - share) * partner_of(own)


def partner_of(values: tf.Tensor) -> tf.Tensor:
    """Gives each element its partner's value: 0 and 1 are partners, 2 and 3, and so on.

    So neighbours mix, and a batch that is cut into workers' shares at even positions mixes as if it
    were not cut. The last of an odd batch is its own partner.

    Args:
      values: [batch, ...], any type.
    """
    return tf.gather(values, _partners(values))


def has_partner(values: tf.Tensor) -> tf.Tensor:
    """Whether each element has a partner besides itself: bool [batch]."""
    return _partners(values) != tf.range(tf.shape(values)[0])


def _partners(values: tf.Tensor) -> tf.Tensor:
    """The partners' places: int32 [batch]."""
    count = tf.shape(values)[0]
    places = tf.range(count)
    partners = tf.bitwise.bitwise_xor(places, 1)
    return tf.where(partners < count, partners, places)
