"""Whether a transform graph makes the pixels that a network was designed for.

Weights that were trained with other pixels still give probabilities, only worse ones, and nothing
else would show it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.models.names import BACKBONES, WANTED_PIXELS, Pixels
from image_pipeline.components.transform.fixed import NORMALIZATIONS
from image_pipeline.components.transform.options import OWN
from image_pipeline.components.views.options import ViewOptions

_IMAGES = 4
_MOST_LEVELS = 0.5  # of 255: less than a pixel's own rounding
_LEVELS = 32  # images whose values differ by less than this are not grey levels, 0 to 255
_MOST_TIMES = 8  # how far a spread may be from the one that a layer was adapted to


def check_pixels(model: str, transform_graph_dir: str, view: ViewOptions) -> None:
    """Feeds known pixels through the graph, and compares.

    Args:
      model: `training.model`; of others than backbones nothing is known, and nothing refused.
      transform_graph_dir: the graph that the model is trained and served behind.
      view: the model's input size.

    Raises:
      UserError: if they differ by more than half a grey level.
    """
    if (wanted := WANTED_PIXELS.get(model)) is None:
        return
    graph = TransformGraph(transform_graph_dir)
    differs = _compare(graph.transform_images, view, wanted)
    if not differs <= _MOST_LEVELS:
        raise UserError(
            f"training.model={model} wants the pixels of transform.preprocessing_fn={wanted}, but "
            "this run's transform graph gives values that differ from them by up to "
            f"{differs:,.1f} grey levels; set transform.preprocessing_fn={wanted}, or take another "
            "model."
        )


Normalize = Callable[[tf.Tensor], tf.Tensor]


def notice_pixels(
    model: keras.Model, normalize: Normalize, view: ViewOptions, given_by: str
) -> list[str]:
    """What a network's own first layers, or its weights, were made for, and do not get.

    A network may scale its images itself, as EfficientNet, MobileNetV3 and ConvNeXt do; or have
    been trained, as ResNet and VGG, behind a function of `keras.applications`. Nothing is reported
    for weights that were not trained, nor behind a step that is not known.

    Args:
      model: built.
      normalize: makes its images of views: `view.dtype` [batch, height, width, channels] → float32.
      view: its input size.
      given_by: what does so, as a sentence begins: "the transform graph".

    Returns:
      Sentences, none if all is well.
    """
    images = np.asarray(normalize(tf.cast(_draw_images(view), view.dtype)))
    gives = f"{given_by} gives values from {images.min():.3g} to {images.max():.3g}"
    sentences = []
    if (found := _find_problem(model, images)) is not None:
        layer, problem = found
        changer, it = "the model", "that step"
        if layer is not None:
            changer, it = f"the model's layer {layer.name!r}", "the layer"
        out = "that to them" if hasattr(layer, "value_range") else _LEVELS_AS_ARE
        sentences.append(f"{changer} {problem}, but {gives}; set {out}, or leave {it} out")
    for name, wanted in _find_backbones(model):
        differs = _compare(normalize, view, wanted)
        if wanted == "keep_levels":
            if np.ptp(images) >= _LEVELS and not any(map(_scales, _list_layers(model))):
                sentences.append(
                    f"{name} was made with include_preprocessing=False, and so does not scale its "
                    f"images, but {gives}; leave that argument out"
                )
        elif not differs <= _MOST_LEVELS:
            sentences.append(
                f"the weights of {name} were trained with the pixels of "
                f"transform.preprocessing_fn={wanted}, but {given_by} gives values that differ "
                f"from them by up to {differs:,.1f} grey levels; set "
                f"transform.preprocessing_fn={wanted}"
            )
    return sentences


def notice_graph(model: keras.Model, transform_graph_dir: str, view: ViewOptions) -> list[str]:
    """`notice_pixels` of what a transform graph gives."""
    normalize = TransformGraph(transform_graph_dir).transform_images
    return notice_pixels(model, normalize, view, "the transform graph")


def find_normalize(preprocessing_fn: str) -> Normalize | None:
    """What a `preprocessing_fn` of this package will do to pixels; None if only its graph tells.

    Those that learn from the data are taken for what they make of levels that are all as frequent.
    """
    short = {path: name for name, path in OWN.items()}.get(preprocessing_fn, "")
    if short == "standardize":
        return lambda levels: (tf.cast(levels, tf.float32) - 127.5) / 73.9
    known = NORMALIZATIONS.get(short)
    return known and (lambda levels: known(tf.cast(levels, tf.float32)))


_LEVELS_AS_ARE = "transform.preprocessing_fn=keep_levels"


def _scales(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Rescaling | keras.layers.Normalization)


def _list_layers(model: keras.Model) -> Iterator[Any]:
    """The layers and operations of a model in their order, with those of models in it."""
    for each in getattr(model, "operations", None) or model.layers:
        if isinstance(each, keras.Model):
            yield from _list_layers(each)
        elif not isinstance(each, keras.layers.InputLayer):
            yield each


def _find_problem(model: keras.Model, images: np.ndarray) -> tuple[keras.Layer | None, str] | None:
    """What a model does to images before it learns of them, if it takes them for others.

    Returns:
      The layer that does it, or None if no layer of Keras's own does, and what, as a sentence goes
      on; None if all is well.
    """
    for layer, given in _see(model, images):
        if hasattr(layer, "value_range"):
            problem = _explain_range(layer, given)
        elif _scales(layer):
            problem = _explain_scaling(layer, given)
        else:
            problem, layer = _explain_change(images, given), None
        if problem:
            return layer, problem
    return None


def _explain_change(images: np.ndarray, given: np.ndarray) -> str | None:
    """What was done to images on their way to the first layer that learns.

    It may have been in the model's `call`, or by operations, such as
    `keras.applications.….preprocess_input`.
    """
    if np.ptp(images) >= _LEVELS:
        is_centred_twice = images.min() < -_LEVELS and abs(given.mean()) > _spread(given)
        return "centres grey levels, 0 to 255" if is_centred_twice else None
    times = _spread(given) / max(_spread(images), 1e-6)
    moved = float(given.mean() - images.mean())
    if 0 < times * _LEVELS < 1:
        return f"scales grey levels, 0 to 255, by about {times:.3g}"
    if abs(moved) > _LEVELS and times < 2:
        return f"moves grey levels, 0 to 255, by about {moved:.3g}"
    return None


def _spread(images: np.ndarray) -> float:
    return float(images.std(axis=(0, 1, 2)).mean())


def _see(model: keras.Model, images: np.ndarray) -> Iterator[tuple[keras.Layer, np.ndarray]]:
    """Layers that scale, or are of a range of values, in their order, and what each gets of images.

    The last one is the first that learns. A layer that is called in a graph of its own is left out.
    """
    seen: list[tuple[keras.Layer, Any]] = []
    layers = [
        each
        for each in model._flatten_layers()
        if hasattr(each, "value_range") or _scales(each) or (each.weights and not each._layers)
    ]
    for layer in layers:
        vars(layer)["call"] = _spy(layer, seen)
    try:
        model(images, training=False)
    finally:
        for layer in layers:
            del vars(layer)["call"]
    for layer, given in seen:
        if not tf.is_tensor(given) or tf.is_symbolic_tensor(given) or len(given.shape) != 4:
            return
        # Half of the height and width, without what a network has padded images with.
        top, left = given.shape[1] // 4, given.shape[2] // 4
        centre = given[:, top : given.shape[1] - top, left : given.shape[2] - left]
        yield layer, tf.cast(centre, tf.float32).numpy()
        if not hasattr(layer, "value_range") and not _scales(layer):
            return


def _spy(layer: keras.Layer, seen: list[tuple[keras.Layer, Any]]) -> Callable[..., Any]:
    """A layer's `call` that also notes what it gets."""
    call = layer.call

    def look(*given: Any, **options: Any) -> Any:
        seen.extend((layer, each) for each in given[:1])
        return call(*given, **options)

    return look


def _explain_range(layer: Any, images: np.ndarray) -> str | None:
    """What range of values a layer changes images within, and clips to, if theirs is another."""
    low, high = map(float, layer.value_range)
    edge = (high - low) / 50
    is_within = low - edge <= images.min() and images.max() <= high + edge
    if is_within and np.ptp(images) * _MOST_TIMES >= high - low:
        return None
    return f"has value_range=({low:g}, {high:g})"


def _explain_scaling(layer: keras.Layer, images: np.ndarray) -> str | None:
    """What a layer was made for, if that is not what it gets: as a sentence goes on."""
    if isinstance(layer, keras.layers.Rescaling):
        largest = float(np.max(np.abs(layer.scale)))
        is_of_levels = 0 < largest * _LEVELS < 1
        if is_of_levels and np.ptp(images) < _LEVELS:
            return f"scales grey levels, 0 to 255, by {largest:.3g}"
        return None
    if not layer.built or np.ndim(layer.variance) == 0:
        return None
    if not np.any(layer.mean) and np.all(np.asarray(layer.variance) == 1):
        return None  # It has not been adapted, and changes nothing.
    spread = np.sqrt(np.maximum(np.asarray(layer.variance), 1e-12))
    given = np.maximum(images.std(axis=(0, 1, 2)), 1e-6)
    times = float(np.max(np.maximum(spread / given, given / spread)))
    if times < _MOST_TIMES:
        return None
    return f"normalises values of a standard deviation of {float(np.mean(spread)):.3g}"


def _find_backbones(model: keras.Model) -> Iterator[tuple[str, Pixels]]:
    """A network of `keras.applications` that has been trained and gets the graph's pixels as is."""
    # As Keras called it: "inception_v3", "mobilenetv2_1.00_224".
    words = {re.sub("[-_]", "", model.name.lower()), model.name.lower().partition("_")[0]}
    name = next((each for each in BACKBONES if each.lower() in words), None)
    if name is not None:
        # Trained, its biases and moving means are others than 0, as they are made.
        learned = (each for each in model.weights if each.path.endswith(("bias", "moving_mean")))
        if any(np.any(each.numpy()) for each in learned):
            yield name, BACKBONES[name]
        return
    for layer in getattr(model, "operations", None) or model.layers:
        # Keras's layers of that name move pixels at random, and change none.
        if isinstance(layer, keras.layers.InputLayer) or type(layer).__name__.startswith("Random"):
            continue
        if isinstance(layer, keras.Model):
            yield from _find_backbones(layer)
        return


def _draw_images(view: ViewOptions) -> tf.Tensor:
    shape = (_IMAGES, view.height_px, view.width_px, view.channels)
    return tf.constant(np.random.default_rng(0).integers(0, 256, shape, np.uint8))


def _compare(normalize: Normalize, view: ViewOptions, wanted: Pixels) -> float:
    """How many grey levels values differ from those that a function makes, at most."""
    images, due = _draw_images(view), NORMALIZATIONS[wanted]
    given, floats = normalize(tf.cast(images, view.dtype)), tf.cast(images, tf.float32)
    one_level = tf.abs(due(floats + 1) - due(floats))
    return float(tf.reduce_max(tf.abs(given - due(floats)) / one_level))
