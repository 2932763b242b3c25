"""Label smoothing (arXiv 1512.00567) of the losses that the built-in models are compiled with."""

import functools
from collections.abc import Callable

import keras

Loss = Callable[[keras.KerasTensor, keras.KerasTensor], keras.KerasTensor]


def smooth_labels(loss: Loss, share: float) -> Loss:
    """A cross entropy whose labels are spread: `share` of each evenly over all classes.

    A cross entropy is linear in its labels, so it is that of the labels as they are, and that of
    even ones, in these shares. It takes labels of every kind that the loss takes.

    Args:
      loss: of ids or shares of classes, [batch]; or of tags, [batch, tags], where a label is spread
        over yes and no.
      share: from 0 to less than 1.

    Returns:
      The loss itself if nothing is spread.
    """
    if not share:
        return loss

    @functools.wraps(loss)  # By its name one tells whether it reads probabilities.
    def smoothed(labels: keras.KerasTensor, probabilities: keras.KerasTensor) -> keras.KerasTensor:
        own = loss(labels, probabilities)
        if len(own.shape) == 1 == probabilities.shape[-1]:
            return own  # There is one class, whose share is all.
        even = 1 / probabilities.shape[-1] if len(own.shape) == 1 else 1 / 2
        spread = loss(keras.ops.full_like(probabilities, even), probabilities)
        mixed = (1 - share) * own + share * spread
        # Where Keras notes which records have a class; the others stay out of the mean.
        if (mask := getattr(own, "_keras_mask", None)) is not None:
            mixed._keras_mask = mask
        return mixed

    return smoothed
