"""Keys and crops of streamed records, in TensorFlow: what `reader` draws in NumPy."""

from collections.abc import Callable

import tensorflow as tf

from image_pipeline.components.augment import draws, geometry
from image_pipeline.components.feeding.compiled import compile_or_keep, once
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import Tensors
from image_pipeline.components.feeding.reader import KEY, MIRRORED


def make_keys(
    seed: tf.Tensor, epoch: tf.Tensor, ids: tf.Tensor, copies: tf.Tensor, views: tf.Tensor
) -> tf.Tensor:
    """Views' keys, uint64 [batch], of seed, epoch, record ids, copies and numbers of views."""
    return draws.fold(draws.record_keys(seed, epoch, ids, copies), views)


class KeyMaker:
    """Draws the keys of batches, and their crops."""

    def __init__(self, seed: int, feeding: FeedingOptions):
        """Compiles the drawing, unless the options or a data service's workers forbid it."""
        self._seed = seed
        self._feeding = feeding
        is_compiled = feeding.compiled and feeding.data_service is None
        self._make_keys = once("keys", _compile_keys) if is_compiled else make_keys

    def add(self, drawn: Tensors, epoch: tf.Tensor) -> tuple[Tensors, tf.Tensor | None]:
        """Adds each view's key, and whether it is mirrored; and draws the crops.

        Args:
          drawn: what `Records.draw_batch` gives.
          epoch: int64 scalar.

        Returns:
          `drawn` with `KEY` uint64 [batch] and `MIRRORED` bool [batch]; and int32 [batch, 4], see
          `geometry.draw_crop_windows`, or None if the centre is taken.
        """
        # With mirror images each crop comes twice, and both share all random steps.
        mirrors = self._feeding.many_views.mirror
        views = drawn["view"] // 2 if mirrors else drawn["view"]
        seed = tf.constant(self._seed, tf.int64)
        keys = self._make_keys(seed, epoch, drawn["record_id"], drawn["copy"], views)
        drawn = drawn | {KEY: keys, MIRRORED: (drawn["view"] % 2 == 1) & mirrors}
        if self._feeding.crop is None:
            return drawn, None
        sizes = tf.stack([drawn["height"], drawn["width"]], axis=1)
        # The crop is the first of the steps: number 0.
        return drawn, geometry.draw_crop_windows(sizes, draws.fold(keys, 0), self._feeding.crop)


def _compile_keys() -> Callable[..., tf.Tensor]:
    # Sixty small ops on integers: a tenth of a 32-pixel image's time.
    number, numbers = tf.constant(0, tf.int64), tf.zeros([2], tf.int64)
    return compile_or_keep(
        make_keys,
        (number, number, numbers, numbers, numbers),
        "Keys are drawn by TensorFlow's kernels, in the same bits; set feeding.compiled=false.",
    )
