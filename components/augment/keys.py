"""What is drawn of a record before its image is read: its key, and its crop. NumPy only.

Keys and numbers are those of `draws`, which the steps behind draw theirs of in TensorFlow.
"""

import math

import numpy as np

from image_pipeline.components.augment.options import RandomResizedCrop
from image_pipeline.components.hashing import mix64

# As in `draws`: SplitMix64's step from one number of a stream to the next; bits of a float32.
_STEP = 0x9E3779B97F4A7C15
_FLOAT_BITS = 24
# torchvision.transforms.RandomResizedCrop draws up to ten crops before it takes the fallback.
CROP_TRIES = 10


def record_keys(seed: int, epoch: int, record_ids: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """The keys of some records in one epoch.

    They depend on the records' ids, not on their positions, so that a record's view does not change
    with the batch size, the shuffle or the number of shards.

    Args:
      seed: the training run's seed, an int64.
      epoch: counted from 0.
      record_ids: int64 [batch], the first eight bytes of each record's id.
      copies: int64 [batch], how often the epoch has already drawn the record.

    Returns:
      uint64 [batch].
    """
    start = fold(fold(np.zeros(len(record_ids), np.uint64), seed), epoch)
    return fold(fold(start, record_ids), copies)


def fold(keys: np.ndarray, numbers: np.ndarray | int) -> np.ndarray:
    """Makes new keys of keys (uint64 [batch]) and numbers (int64 [batch] or one)."""
    mixed = mix64(np.atleast_1d(np.asarray(numbers, np.int64)).view(np.uint64) + np.uint64(_STEP))
    return mix64(mix64(keys) ^ mixed)


def uniform(keys: np.ndarray, count: int) -> np.ndarray:
    """So many numbers a key from [0, 1), multiples of 2**-24: float32 [batch, count]."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP)
    bits = mix64(keys[:, None] + steps)
    top = (bits >> np.uint64(64 - _FLOAT_BITS)).astype(np.float32)
    return top * np.float32(2.0**-_FLOAT_BITS)


def draw_crop_windows(
    sizes: np.ndarray, keys: np.ndarray, options: RandomResizedCrop
) -> np.ndarray:
    """Draws a crop of each image by torchvision's rule (`RandomResizedCrop.get_params`).

    Ten times an area (uniform) and an aspect ratio (uniform in its logarithm) are drawn; the first
    pair that fits the image is placed at random. If none fits, the window is the largest
    central one whose aspect ratio is within the bounds.

    Args:
      sizes: int [batch, 2], the images' heights and widths in pixels.
      keys: uint64 [batch].
      options: bounds of the crops' area and aspect ratio.

    Returns:
      int32 [batch, 4]: top, left, height and width of each crop, in pixels.
    """
    image_sizes = sizes.astype(np.float64)
    drawn = uniform(keys, 2 * CROP_TRIES + 2).astype(np.float64)
    areas, aspects, corners = np.split(drawn, [CROP_TRIES, 2 * CROP_TRIES], axis=1)
    (least_area, most_area), (least, most) = options.area, options.aspect
    area = image_sizes.prod(axis=1)[:, None] * (least_area + areas * (most_area - least_area))
    aspect = np.exp(math.log(least) + aspects * (math.log(most) - math.log(least)))
    tried = np.rint(np.stack([np.sqrt(area / aspect), np.sqrt(area * aspect)], axis=2))
    fits = ((tried >= 1) & (tried <= image_sizes[:, None])).all(axis=2)
    any_fits = fits.any(axis=1)[:, None]
    first = tried[np.arange(len(tried)), fits.argmax(axis=1)]
    crop_sizes = np.where(any_fits, first, _largest_central_sizes(image_sizes, least, most))
    room = image_sizes - crop_sizes
    # The corner is one of the integers from 0 to room, each equally likely.
    corners = np.where(any_fits, np.floor(corners * (room + 1)), np.floor(room / 2))
    return np.concatenate([corners, crop_sizes], axis=1).astype(np.int32)


def _largest_central_sizes(image_sizes: np.ndarray, least: float, most: float) -> np.ndarray:
    """The largest heights and widths whose aspect ratio is within bounds: float64 [batch, 2]."""
    heights, widths = image_sizes.T
    largest = [
        np.minimum(heights, np.rint(widths / least)),
        np.minimum(widths, np.rint(heights * most)),
    ]
    return np.maximum(np.stack(largest, axis=1), 1)
