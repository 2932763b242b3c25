"""The project's own `preprocessing_fn`s; whitening is in `whitening`.

A `preprocessing_fn` holds what needs the whole data set, and nothing else: what concerns one image
belongs to ingest, what is random belongs to feeding. It takes `{"image": uint8 [B, H, W, C],
"label": string [B]}` and returns `{"image": float32 [B, H, W, C], "label": int64 [B]}`; tags and
values come in further inputs, see `labels.make_labels`.
"""

from collections.abc import Mapping

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.transform import statistics
from image_pipeline.components.transform.labels import make_labels
from image_pipeline.components.transform.moments import channel_mean_and_std, mean_image


def standardize(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Gives every channel mean 0 and standard deviation 1 over the analysed images.

    A channel of one constant value has standard deviation 0; it is divided by 1 instead, and
    `constant_channels` says so.
    """
    images = inputs[contract.IMAGE_INPUT]
    mean, std = channel_mean_and_std(images)
    mean = statistics.name_statistic("mean", mean)
    is_constant = statistics.name_statistic("constant_channels", std <= 0)
    std = statistics.name_statistic("std", tf.where(is_constant, tf.ones_like(std), std))
    centered = tf.cast(images, tf.float32) - tf.cast(mean, tf.float32)
    # Multiplied, because a compiler turns a division by a constant into that, with other bits.
    scale = tf.cast(1 / std, tf.float32)
    return {
        contract.IMAGE_OUTPUT: centered * scale,
        contract.LABEL_OUTPUT: make_labels(inputs),
    }


def subtract_mean(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Subtracts the mean image, pixel by pixel, and keeps the unit: grey levels.

    AlexNet's only normalisation (Krizhevsky et al. 2012, section 2). It costs one float per pixel
    of the view in the graph, and suits data whose images are all framed alike.
    """
    images = inputs[contract.IMAGE_INPUT]
    mean = statistics.name_statistic("mean_image", mean_image(images))
    return {
        contract.IMAGE_OUTPUT: tf.cast(images, tf.float32) - tf.cast(mean, tf.float32),
        contract.LABEL_OUTPUT: make_labels(inputs),
    }
