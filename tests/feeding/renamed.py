"""A `preprocessing_fn` that numbers labels by other names than they have."""

from collections.abc import Mapping

import tensorflow as tf

from image_pipeline.components.transform.preprocessing import standardize


def in_capitals(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Standardizes images; classes are called in capital letters."""
    return standardize({**inputs, "label": tf.strings.upper(inputs["label"])})
