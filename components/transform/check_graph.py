"""Checks a finished transform graph by running it on a few images."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph

# How far an image's output may move, relative to the greatest value, when its neighbours change:
# matrix products round differently for other batch sizes (float32: 6e-8 a step).
_TOLERANCE = 1e-4


def check_graph(transform_graph_dir: str, views: Mapping[str, np.ndarray], name: str) -> None:
    """Runs the graph on black, white and real images, and on each of them alone.

    Args:
      transform_graph_dir: the folder that tf.Transform wrote.
      views: at least one real image with its label and columns, as `read_views` gives them.
      name: the preprocessing_fn's dotted path, for messages.

    Raises:
      UserError: if an output is NaN or infinite, if there is not one output for each image, or if
        an image's output depends on its neighbours in the batch.
    """
    graph = TransformGraph(transform_graph_dir)
    batch = make_probe(views)
    together = _run(graph, batch, name)
    alone = [
        _run(graph, {key: value[row : row + 1] for key, value in batch.items()}, name)
        for row in range(len(batch[contract.LABEL_INPUT]))
    ]
    for key in (contract.IMAGE_OUTPUT, contract.LABEL_OUTPUT):
        apart = np.concatenate([outputs[key] for outputs in alone])
        check_rows(key, together[key], apart, len(alone), name)


def check_statistics(statistics: Mapping[str, np.ndarray], name: str) -> None:
    """Refuses NaN and infinity in named statistics."""
    for key, value in statistics.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise UserError(
                f"the statistic {key} of preprocessing_fn {name} must be finite, got "
                f"{value.reshape(-1)[~np.isfinite(value.reshape(-1))][0]}; guard its divisions "
                "and logarithms, for example with tf.maximum(std, 1e-6)."
            )


def make_probe(views: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Puts a black and a white image before a real one: every input, [3, ...]."""
    probe = {key: np.stack([value[0]] * 3) for key, value in views.items()}
    probe[contract.IMAGE_INPUT][0] = 0
    probe[contract.IMAGE_INPUT][1] = 255
    return probe


def check_rows(key: str, together: np.ndarray, apart: np.ndarray, rows: int, name: str) -> None:
    """Checks one output, computed for images together and for each apart."""
    if len(together) != rows or together.shape != apart.shape:
        raise UserError(
            f"preprocessing_fn {name} must return one row of {key!r} for each image, got "
            f"{list(together.shape)} for {rows} images and {list(apart.shape)} from images apart; "
            "keep the batch dimension."
        )
    if not np.isfinite(together).all():
        which = ["a black image", "a white image", "an image of the data set"]
        bad = int(np.argmax([not np.isfinite(row).all() for row in together]))
        raise UserError(
            f"preprocessing_fn {name} must return finite numbers, got NaN or infinity in {key!r} "
            f"for {which[bad]}; guard its divisions and logarithms, for example with "
            "tf.maximum(std, 1e-6)."
        )
    scale = max(1.0, float(np.abs(together).max(initial=0)))
    if float(np.abs(together - apart).max(initial=0)) > _TOLERANCE * scale:
        raise UserError(
            f"preprocessing_fn {name} makes {key!r} of an image depend on its neighbours in the "
            "batch or its place in it, which differ between training and serving; use an analyzer "
            "(tft.mean, tft.sum, …) for what concerns the whole data set."
        )


def _run(
    graph: TransformGraph, batch: Mapping[str, np.ndarray], name: str
) -> dict[str, np.ndarray]:
    inputs = {key: tf.constant(value) for key, value in batch.items()}
    rows = len(batch[contract.LABEL_INPUT])
    try:
        outputs = graph(inputs)
    except tf.errors.OpError as error:
        raise UserError(
            f"preprocessing_fn {name} fails on a batch of {rows}: {error.message.splitlines()[0]}; "
            "it must take batches of any size."
        ) from error
    image, label = (output.numpy() for output in outputs)
    return {contract.IMAGE_OUTPUT: image.astype(np.float64), contract.LABEL_OUTPUT: label}
