"""Normalisations that know nothing of the data set: those of networks with pretrained weights.

Each is a `preprocessing_fn`, as in `preprocessing`, for images of 8 bits. `keras.applications`
calls the first three modes "torch", "caffe" and "tf".
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.errors import UserError

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's RGB, as shares of 255
_MEAN_BGR = (103.939, 116.779, 123.68)  # in the order of the networks that were trained with it
_MIDDLE = 127.5
_OF_THREE_CHANNELS = ("imagenet", "caffe")


def _to_imagenet(rgb: tf.Tensor) -> tf.Tensor:
    # Multiplied, because a compiler turns a division by a constant into that, with other bits.
    mean = tf.constant([255 * each for each in _MEAN])
    return (rgb - mean) * tf.constant([1 / (255 * each) for each in _STD])


NORMALIZATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "imagenet": _to_imagenet,
    "caffe": lambda rgb: rgb[..., ::-1] - tf.constant(_MEAN_BGR),
    "minus_one_to_one": lambda levels: (levels - _MIDDLE) * (1 / _MIDDLE),
    "keep_levels": lambda levels: levels,
}
"""By the names of the functions below: grey levels, 0 to 255, as float32 [..., channels] to the
same shape."""


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
    # Here, so that training, which wants the formulas only, need not import tf.Transform.
    from image_pipeline.components.transform.labels import make_labels

    images = inputs[contract.IMAGE_INPUT]
    if images.dtype != tf.uint8 or (name in _OF_THREE_CHANNELS and images.shape[-1] != 3):
        wanted = " and 3 channels" if name in _OF_THREE_CHANNELS else ""
        raise UserError(
            f"transform.preprocessing_fn={name} normalises images of 8 bits{wanted}, but the view "
            f"gives {images.dtype.name} of {images.shape[-1]}; set view.channels=3, or take "
            "standardize, which normalises any values."
        )
    return {
        contract.IMAGE_OUTPUT: NORMALIZATIONS[name](tf.cast(images, tf.float32)),
        contract.LABEL_OUTPUT: make_labels(inputs),
    }
