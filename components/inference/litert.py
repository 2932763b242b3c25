"""An exported model as a LiteRT file (`.tflite`), for phones and small computers.

It takes pixels, not files: views of the model's input size, decoded, resized and cut by the caller.
Normalisation is in it; nothing that is text is.
"""

import dataclasses
import tempfile
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.inference.exported import ExportedModel
from image_pipeline.components.tasks.signatures import (
    BOXES,
    PIXELS,
    PREDICT_VIEWS,
    PROBABILITIES,
    SCORES,
    VALUE,
)

Weights = Literal["float32", "float16", "int8"]
_ENOUGH_IMAGES = 64  # Random ones that parity is measured on.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parity:
    """How near a model in another format is to the SavedModel that it was made of.

    Attributes:
      images: how many were compared.
      mean_difference, most_difference: of the outputs, in absolute numbers.
      same_likeliest: share of rows (images; pixels of masks, candidates of boxes) whose likeliest
        class is the same; None where a value is predicted.
    """

    images: int
    mean_difference: float
    most_difference: float
    same_likeliest: float | None


def convert_model(model: ExportedModel, weights: Weights = "float32") -> bytes:
    """Makes a LiteRT model: its input is `PIXELS`, its outputs are the network's own.

    Args:
      model: the exported model.
      weights: how weights are stored. "float16" takes half of the bytes; "int8" a quarter, and
        computes large layers in whole numbers, their inputs quantised as they come.

    Raises:
      UserError: if an earlier version exported it, or LiteRT lacks an operation that it needs.
    """
    spec = tf.TensorSpec(model.views_spec.shape, model.views_spec.dtype, name=PIXELS)
    function = tf.function(_name_outputs(model), input_signature=[spec])
    with tempfile.TemporaryDirectory() as folder:
        # The converter would do so itself, and go on without signatures where that fails.
        tf.saved_model.save(model.loaded, folder, function.get_concrete_function())
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if weights != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if weights == "float16":
            converter.target_spec.supported_types = [tf.float16]
        try:
            return converter.convert()
        except Exception as error:  # TensorFlow's own classes for it are private.
            if shortage := explain_shortage(error):
                raise shortage from error
            lines = [line.strip() for line in str(error).splitlines() if "tf." in line]
            raise UserError(
                f"{model.folder!r} cannot be converted to LiteRT, which lacks an operation that it "
                f"needs: {(lines or [str(error)])[0][:300]}; export another model."
            ) from error


def describe_model(model: ExportedModel) -> dict[str, Any]:
    """What a program that runs the LiteRT model must know; it is written beside it."""
    _, height, width, channels = model.views_spec.shape
    order = contract.CHANNEL_ORDER.get(channels, contract.AS_STORED)
    is_plain = model.views_spec.dtype == tf.uint8 and channels in contract.CHANNEL_ORDER
    return {
        "input": {
            "name": PIXELS,
            "shape": ["batch", height, width, channels],
            "dtype": model.views_spec.dtype.name,
            "channels": order if is_plain else contract.AS_STORED,
            "color_space": contract.COLOR_SPACE if is_plain else contract.AS_STORED,
        },
        "outputs": sorted(_output_names(model)),
        "classes": model.read_class_names(),
    }


def measure_parity(model: ExportedModel, content: bytes, views: np.ndarray | None = None) -> Parity:
    """Compares a LiteRT model's outputs with those of the model that it was made of.

    Args:
      model: the exported model.
      content: what `convert_model` made of it.
      views: `PIXELS` to compare on; None for smooth random ones.
    """
    views = make_views(model.views_spec) if views is None else views
    theirs = run_model(content, views)
    ours = {name: value.numpy() for name, value in _name_outputs(model)(tf.constant(views)).items()}
    differences = np.concatenate(
        [np.abs(ours[name] - theirs[name]).ravel().astype(np.float64) for name in sorted(ours)]
    )
    scores = next((name for name in (PROBABILITIES, SCORES) if name in ours), None)
    same = None
    if scores is not None:
        same = float((ours[scores].argmax(-1) == theirs[scores].argmax(-1)).mean())
    return Parity(
        images=len(views),
        mean_difference=float(differences.mean()),
        most_difference=float(differences.max()),
        same_likeliest=same,
    )


def run_model(content: bytes, views: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of a LiteRT model for views, one at a time, as on a small computer.

    Args:
      content: the model's file.
      views: [count, height, width, channels].

    Returns:
      Each output, [count, …].
    """
    runner = tf.lite.Interpreter(model_content=content).get_signature_runner()
    outputs = [runner(**{PIXELS: view[np.newaxis]}) for view in views]
    return {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}


def make_views(spec: tf.TensorSpec, count: int = _ENOUGH_IMAGES) -> np.ndarray:
    """Smooth random pictures of a model's input size, always the same ones."""
    _, height, width, channels = spec.shape
    coarse = np.random.default_rng(0).uniform(0, 255, (count, 4, 4, channels))
    views = tf.image.resize(coarse, [height, width], "bicubic").numpy().clip(0, 255)
    return views.astype(spec.dtype.as_numpy_dtype)


def _name_outputs(model: ExportedModel) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """The network on views, its outputs by the names that servers use."""
    name = _output_names(model)[0]
    predict = getattr(model.loaded, PREDICT_VIEWS)

    def run(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = predict(pixels)
        return dict(outputs) if isinstance(outputs, dict) else {name: outputs}

    return run


def _output_names(model: ExportedModel) -> list[str]:
    if BOXES in model.outputs:
        return [BOXES, SCORES]
    return [VALUE] if VALUE in model.outputs else [PROBABILITIES]
