"""Whether a transform graph makes the pixels that a backbone was designed for.

Weights that were trained with other pixels still give probabilities, only worse ones, and nothing
else would show it.
"""

import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.models.names import BACKBONES
from image_pipeline.components.transform.pixels import NORMALIZATIONS
from image_pipeline.components.views.options import ViewOptions

_IMAGES = 4
_MOST_LEVELS = 0.5  # of 255: less than a pixel's own rounding


def check_pixels(model: str, transform_graph_dir: str, view: ViewOptions) -> None:
    """Feeds known pixels through the graph, and compares.

    Args:
      model: `training.model`; of others than backbones nothing is known, and nothing refused.
      transform_graph_dir: the graph that the model is trained and served behind.
      view: the model's input size.

    Raises:
      UserError: if they differ by more than half a grey level.
    """
    if (wanted := BACKBONES.get(model)) is None:
        return
    shape = (_IMAGES, view.height_px, view.width_px, view.channels)
    images = tf.constant(np.random.default_rng(0).integers(0, 256, shape, np.uint8))
    given = TransformGraph(transform_graph_dir).transform_images(tf.cast(images, view.dtype))
    normalize = NORMALIZATIONS[wanted]
    floats = tf.cast(images, tf.float32)
    one_level = tf.abs(normalize(floats + 1) - normalize(floats))
    levels = float(tf.reduce_max(tf.abs(given - normalize(floats)) / one_level))
    if not levels <= _MOST_LEVELS:
        raise UserError(
            f"training.model={model} wants the pixels of transform.preprocessing_fn={wanted}, but "
            f"this run's transform graph gives values that differ from them by up to {levels:,.1f} "
            f"grey levels; set transform.preprocessing_fn={wanted}, or take another model."
        )
