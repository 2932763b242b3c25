"""Weights that a user has, in any of the forms that Keras and this package write them.

What is read is one list of arrays, in the order in which Keras lists a model's weights: names
carry numbers that depend on what else was built before. They are then put into a model, with a new
head (the layers that give its answers) where the classes are others.
"""

import itertools
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.names import SAVED_MODEL
from image_pipeline.components.trees import fetch_file, fetch_tree

Arrays = list[np.ndarray]
_LOG = logging.getLogger(__name__)

WEIGHTS, OLD_WEIGHTS = ".weights.h5", ".h5"
# Of a SavedModel: where TensorFlow keeps variables, and what `training.serving` and Keras's own
# `model.export` call the list of a model's weights.
_VARIABLES, _INDEX = os.path.join("variables", "variables"), "variables/variables.index"
_LISTS = ("weights", "variables")
SCORES = "scores"  # a detector's output for classes, as `detector.build_model` calls it
_SEED = np.uint32  # the type of the state of random layers, which Keras's list has, too


def read_weights(path: str, model: keras.Model, source: str) -> Arrays:
    """Reads weights for a model.

    Args:
      path: `.weights.h5`, `.h5` (also of earlier versions of Keras) or `.keras`, or the folder of
        a SavedModel; or its URI.
      model: what they are for; unchanged.
      source: what names them, for messages: an option and its value.

    Returns:
      One array for each of the model's weights, or for all but the head's; the head's may have
      another shape. Weights of another model's may be any arrays.

    Raises:
      UserError: if there is nothing, or it is damaged, or no weights.
    """
    is_file = path.endswith((SAVED_MODEL, OLD_WEIGHTS, ".hdf5"))
    try:
        local = fetch_file(path) if is_file else fetch_tree(path)
        wanted = local if is_file else os.path.join(local, _INDEX)
        if not os.path.isfile(wanted):
            raise FileNotFoundError(wanted)
        if not is_file:
            return _read_folder(local)
        if path.endswith(SAVED_MODEL):
            return list(map(np.asarray, keras.saving.load_model(local, compile=False).weights))
        with h5py.File(local) as file:
            return _read_by_name(file, model) if path.endswith(WEIGHTS) else _read_old(file, model)
    except FileNotFoundError as error:
        raise UserError(
            f"{source} is not there; give a {WEIGHTS}, {OLD_WEIGHTS} or "
            f"{SAVED_MODEL} file, or the folder of a SavedModel."
        ) from error
    except UserError:
        raise
    except Exception as error:  # A file of someone else's: the libraries raise many kinds.
        told = describe_error(error).rstrip(".")
        raise UserError(
            f"{source} cannot be read: {told}. It is damaged or cut off, of another kind than its "
            "name says, or a model with layers of your own; copy it again, or give its weights "
            f"alone, as model.save_weights('my{WEIGHTS}') writes them."
        ) from error


def _read_old(file: h5py.File, model: keras.Model) -> Arrays:
    """Reads what Keras wrote before version 3, as the weights of `keras.applications` are."""
    if "layer_names" not in file.attrs and "model_weights" not in file:
        return _read_by_name(file, model)
    group = file if "layer_names" in file.attrs else file["model_weights"]
    layers = [group[_text(name)] for name in group.attrs["layer_names"]]
    return [np.asarray(layer[name]) for layer in layers for name in _order_names(layer)]


def _order_names(layer: h5py.Group) -> list[str]:
    """A layer's weights as Keras lists them now: of layers within it, one after another.

    Of a model within the model, all that learns was written first, and then all that does not.
    """
    names = [_text(name) for name in layer.attrs["weight_names"]]
    owners = list(dict.fromkeys(name.rpartition("/")[0] for name in names))
    return sorted(names, key=lambda name: owners.index(name.rpartition("/")[0]))


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _list_arrays(file: h5py.File) -> dict[str, np.ndarray]:
    """A file's arrays by their names; not those of an optimizer."""
    found: dict[str, np.ndarray] = {}

    def visit(name: str, each: Any) -> None:
        if isinstance(each, h5py.Dataset) and not name.startswith("optimizer/"):
            found[name] = np.asarray(each)

    file.visititems(visit)
    return found


def _read_by_name(file: h5py.File, model: keras.Model) -> Arrays:
    """Arrays in the order of the weights of a model, or of what it has before its head.

    Names in such a file follow from the model's layers; they are learned by writing another one.
    """
    arrays = _list_arrays(file)
    for target in (model, leave_out_head(model)):
        names = name_weights(target) if target is not None else None
        if names is not None and all(name in arrays for name in names):
            return [arrays[name] for name in names]
    return list(arrays.values())


def leave_out_head(model: keras.Model) -> keras.Model | None:
    """What a model has before its head; None if that is not known."""
    features = find_features(model)
    return None if features is None else keras.Model(model.inputs, features)


def name_weights(model: keras.Model) -> Sequence[str]:
    """What a `.weights.h5` file of a model calls its weights, in their order."""
    kept = [np.asarray(weight) for weight in model.weights]
    try:
        for number, weight in enumerate(model.weights):
            weight.assign(np.full(weight.shape, number, kept[number].dtype))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"numbers{WEIGHTS}")
            model.save_weights(path)
            with h5py.File(path) as file:
                numbered = {int(each.flat[0]): name for name, each in _list_arrays(file).items()}
    finally:
        for weight, value in zip(model.weights, kept, strict=True):
            weight.assign(value)
    return [numbered[number] for number in range(len(kept))]


def _read_folder(folder: str) -> Arrays:
    reader = tf.train.load_checkpoint(os.path.join(folder, _VARIABLES))
    for kind in _LISTS:
        names = (f"{kind}/{number}/.ATTRIBUTES/VARIABLE_VALUE" for number in itertools.count())
        found = [reader.get_tensor(name) for name in itertools.takewhile(reader.has_tensor, names)]
        if weights := [each for each in found if each.dtype != _SEED]:
            return weights
    raise ValueError("its variables have no list of a model's weights")


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
      UserError: if those before the head do not fit; none of them is assigned then.
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


def find_heads(model: keras.Model) -> list[keras.layers.Layer]:
    """The last layers with weights on the way to each output, in their order; none if unknown.

    A model of a class of its own does not say which of its layers gives the answers.
    """
    return _find_last(getattr(model, "outputs", None) or [])


def find_features(model: keras.Model) -> keras.KerasTensor | None:
    """What a model's only head sees; None if there is not one, or it is within another model."""
    heads = find_heads(model)
    if len(heads) != 1 or all(heads[0] is not layer for layer in model.layers):
        return None
    return heads[0].input


def find_class_heads(model: keras.Model) -> list[keras.layers.Layer]:
    """Those of the heads whose values belong to classes: not where a detector's boxes are."""
    outputs = getattr(model, "output", None) if getattr(model, "outputs", None) else None
    if isinstance(outputs, dict) and SCORES in outputs:
        return _find_last(outputs[SCORES])
    return find_heads(model)


def _find_last(outputs: Any) -> list[keras.layers.Layer]:
    found: dict[int, keras.layers.Layer] = {}
    for output in keras.tree.flatten(outputs):
        for layer in _last_with_weights(output):
            found.setdefault(id(layer), layer)
    return list(found.values())


def _last_with_weights(tensor: Any) -> Iterator[keras.layers.Layer]:
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return
    layer, node = history.operation, history.operation._inbound_nodes[history.node_index]
    if getattr(layer, "weights", None):
        # A model within the model ends in layers of its own.
        within = _find_last(getattr(layer, "outputs", None) or [])
        yield from within or [layer]
        return
    for each in node.input_tensors:
        yield from _last_with_weights(each)
