"""How networks with weights of others want their pixels: functions of grey levels, 0 to 255.

`keras.applications` calls the first three modes "torch", "caffe" and "tf".
"""

from collections.abc import Callable

import tensorflow as tf

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's RGB, as shares of 255
_MEAN_BGR = (103.939, 116.779, 123.68)  # in the order of the networks that were trained with it
_MIDDLE = 127.5


def _to_imagenet(rgb: tf.Tensor) -> tf.Tensor:
    # Multiplied, because a compiler turns a division by a constant into that, with other bits.
    mean = tf.constant([255 * each for each in _MEAN])
    return (rgb - mean) * tf.constant([1 / (255 * each) for each in _STD])


def _to_caffe(rgb: tf.Tensor) -> tf.Tensor:
    return rgb[..., ::-1] - tf.constant(_MEAN_BGR)


def _to_minus_one_to_one(levels: tf.Tensor) -> tf.Tensor:
    return (levels - _MIDDLE) * (1 / _MIDDLE)


def _keep_levels(levels: tf.Tensor) -> tf.Tensor:
    return levels


NORMALIZATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "imagenet": _to_imagenet,
    "caffe": _to_caffe,
    "minus_one_to_one": _to_minus_one_to_one,
    "keep_levels": _keep_levels,
}
"""By the names of `fixed`'s functions: float32 [..., channels] to the same shape."""
OF_THREE_CHANNELS = ("imagenet", "caffe")
"""Those that want RGB."""
