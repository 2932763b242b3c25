"""Puts weights of another training into a model, with a new head where the classes are others."""

import logging
from collections.abc import Sequence

import keras
import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.heads import find_class_heads

_LOG = logging.getLogger(__name__)


def carry_over(
    model: keras.Model,
    arrays: Sequence[np.ndarray],
    source: str,
    old_classes: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
) -> None:
    """Assigns arrays to a model's weights, in their order.

    The head's are assigned class by class, if the names on both sides are known: ids are numbered
    by the names of all classes, in earlier versions by how often these occur, and so are others in
    other data. If they are not, its weights are
    taken as they are where they fit. What does not fit of the head stays as it was initialised.

    Args:
      model: built; changed.
      arrays: of all of its weights, or of all before its head, and any after these.
      source: where they come from, for messages: an option and its value.
      old_classes: the names of the values that the arrays' head gives.
      classes: those of the model's.

    Raises:
      UserError: if those before the head do not fit, of which none is assigned then.
    """
    of_heads = {id(weight) for head in find_class_heads(model) for weight in head.weights}
    body = [weight for weight in model.weights if id(weight) not in of_heads]
    if len(arrays) == len(model.weights) and _fit(model.weights, arrays, of_heads):
        pairs = list(zip(model.weights, arrays, strict=True))
    elif _fit(body, arrays[: len(body)], set()) and body:
        pairs = list(zip(body, arrays, strict=False))
    else:
        raise UserError(_explain(model, body, arrays, source))
    wrong = [weight.path for weight, array in pairs if not np.isfinite(array).all()]
    if wrong:
        raise UserError(
            f"{source} has NaN or infinity among the values of {wrong[0]}: its training failed; "
            "give other weights."
        )
    names = None if old_classes is None or classes is None else (old_classes, classes)
    kept = [
        _assign(weight, array, names if id(weight) in of_heads else None) for weight, array in pairs
    ]
    if sum(kept) < len(model.weights):
        _LOG.warning("%s: its head does not fit these classes, and is replaced in part.", source)
    _LOG.info("%s: %d of %d arrays are taken.", source, sum(kept), len(model.weights))


def _fit(
    weights: Sequence[keras.Variable], arrays: Sequence[np.ndarray], of_heads: set[int]
) -> bool:
    """Whether the shapes are equal, of heads up to the last dimension, which counts classes."""
    if len(weights) != len(arrays):
        return False
    shapes = (
        (weight, tuple(weight.shape), array.shape)
        for weight, array in zip(weights, arrays, strict=True)
    )
    return all(
        own == given or (id(weight) in of_heads and own[:-1] == given[:-1] and len(given) > 0)
        for weight, own, given in shapes
    )


def _assign(
    weight: keras.Variable,
    array: np.ndarray,
    names: tuple[Sequence[str], Sequence[str]] | None,
) -> bool:
    """Assigns one array, class by class if old and new names are given.

    Returns:
      False if a class, or all of it, stays as it was initialised.
    """
    if names is not None and (len(names[0]), len(names[1])) == (array.shape[-1], weight.shape[-1]):
        old_ids = {name: number for number, name in enumerate(names[0])}
        value = np.array(weight)
        for number, name in enumerate(names[1]):
            if name in old_ids:
                value[..., number] = array[..., old_ids[name]]
        weight.assign(value)
        return set(names[1]) <= old_ids.keys()
    if tuple(weight.shape) != array.shape:
        return False
    weight.assign(array)
    return True


def _explain(
    model: keras.Model,
    body: Sequence[keras.Variable],
    arrays: Sequence[np.ndarray],
    source: str,
) -> str:
    pairs = enumerate(zip(body, arrays, strict=False))
    wrong = [
        f"the first that differs is number {number}, {weight.path}: "
        f"{list(weight.shape)} in the model, {list(array.shape)} in the file"
        for number, (weight, array) in pairs
        if tuple(weight.shape) != array.shape
    ]
    return (
        f"{source} has {len(arrays)} arrays that do not fit the model's {len(model.weights)} "
        f"({(wrong or ['all that both have are equal'])[0]}): they are another model's, or for "
        "another number of channels; give the training.model and view.channels that they were "
        "trained with, or other weights."
    )
