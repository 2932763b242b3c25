"""What a model's training starts from: weights that a user has, or the latest good model's."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.names import IMAGENET
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.weights import carry_over, read_weights
from image_pipeline.components.tasks.signatures import (
    CLASSES,
    IMAGE_BYTES,
    MODEL_FILE,
    SERVE_IMAGES,
)
from image_pipeline.components.trees import fetch_tree

WARM_START = "training.warm_start=latest_blessed"


def choose_start(training: TrainingOptions, base_model: str | None) -> TrainingOptions:
    """The options with the latest good model's weights, if they ask for these and it exists.

    Where there is none, they no longer ask for it, so that what is told is what they start from.

    Raises:
      UserError: if there is a model that they do not ask for.
    """
    if not base_model:
        return training.model_copy(update={"warm_start": "none"})
    if training.warm_start == "none":
        raise UserError(
            "training.warm_start must be latest_blessed where the Trainer has a base_model, "
            f"{base_model}, but is none, which would leave it unused; set it in custom_config's "
            "training, or leave base_model out."
        )
    return training.model_copy(update={"weights": base_model})


def name_start(training: TrainingOptions) -> str | None:
    """Says where the weights come from, as messages begin; None if they are random."""
    if training.weights is None:
        return training.model if training.model and training.model.endswith(".keras") else None
    if training.warm_start != "none" and is_ours(training.weights):
        return f"{WARM_START} ({training.weights})"
    return f"training.weights={training.weights}"


def start_from(
    model: keras.Model, training: TrainingOptions, classes: Sequence[str] | None = None
) -> None:
    """Gives a model the weights that the options name, if they do.

    Args:
      model: built; changed.
      training: options, as `choose_start` gives them.
      classes: names of the model's values in their order; None if they are not known yet.

    Raises:
      UserError: if there are no such weights, or they do not fit.
    """
    if training.weights is None or training.weights == IMAGENET:
        return  # A network by name is built with these.
    source = str(name_start(training))
    arrays = read_weights(training.weights, model, source)
    known = classes is not None and is_ours(training.weights)
    old_classes = read_classes(training.weights) if known else None
    carry_over(model, arrays, source, old_classes, classes)


def is_ours(path: str) -> bool:
    """Whether it is a SavedModel's folder, such as a pushed model's."""
    return files.exists(files.join(path, MODEL_FILE))


@functools.lru_cache(maxsize=4)
def read_classes(folder: str) -> tuple[str, ...] | None:
    """The names of an exported model's values, in their order; None if it does not tell them."""
    try:
        signatures: Any = tf.saved_model.load(fetch_tree(folder)).signatures
        answer: Any = signatures[SERVE_IMAGES](**{IMAGE_BYTES: tf.constant([b""])})
    except (KeyError, TypeError):  # exported by others
        return None
    except Exception as error:  # Of a damaged file, TensorFlow raises many kinds.
        raise explain_shortage(error) or UserError(
            f"The model {folder} cannot be loaded: {describe_error(error)}; give another."
        ) from error
    names = answer.get(CLASSES)
    return None if names is None else tuple(name.decode() for name in names.numpy()[0].tolist())
