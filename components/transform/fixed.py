"""Normalisations that know nothing of the data set: those of networks with weights of others.

Each is a `preprocessing_fn`, as in `preprocessing`, for images of 8 bits.
"""

from collections.abc import Mapping

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.errors import UserError
from image_pipeline.components.transform.labels import make_labels
from image_pipeline.components.transform.pixels import NORMALIZATIONS, OF_THREE_CHANNELS


def imagenet(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """RGB less ImageNet's mean of each channel, divided by its standard deviation."""
    return _normalize(inputs, "imagenet")


def caffe(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """BGR less ImageNet's mean of each channel, in grey levels."""
    return _normalize(inputs, "caffe")


def minus_one_to_one(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Grey levels of 0 to 255 become -1 to 1."""
    return _normalize(inputs, "minus_one_to_one")


def keep_levels(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Grey levels as they are, 0 to 255, as floats: for networks that scale them themselves."""
    return _normalize(inputs, "keep_levels")


def _normalize(inputs: Mapping[str, tf.Tensor], name: str) -> dict[str, tf.Tensor]:
    images = inputs[contract.IMAGE_INPUT]
    if images.dtype != tf.uint8 or (name in OF_THREE_CHANNELS and images.shape[-1] != 3):
        wanted = " and 3 channels" if name in OF_THREE_CHANNELS else ""
        raise UserError(
            f"transform.preprocessing_fn={name} normalises images of 8 bits{wanted}, but the view "
            f"gives {images.dtype.name} of {images.shape[-1]}; set view.channels=3, or take "
            "standardize, which normalises any values."
        )
    return {
        contract.IMAGE_OUTPUT: NORMALIZATIONS[name](tf.cast(images, tf.float32)),
        contract.LABEL_OUTPUT: make_labels(inputs),
    }
