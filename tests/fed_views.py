"""The deterministic views of records as evaluation feeds them, to compare other readers with."""

from collections.abc import Sequence

import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.views.options import ViewOptions


def read_views(
    files: Sequence[str], view: ViewOptions, batch_size: int, columns: Sequence[record.Column] = ()
) -> tf.data.Dataset:
    """Whole shards in their own order: dicts keyed as the transform graph's inputs are."""
    feeding = FeedingOptions(batch_size=batch_size, augment=(), dtype="uint8")
    return ImageBatches(files, view, feeding, Passes(mode="eval"), columns).read()
