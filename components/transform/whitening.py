"""Whitening for small images: uncorrelated values of equal variance.

The covariance of all D = height · width · channels values of an image is analysed, so time and
memory grow with D² (the eigenvectors with D³): 3,072 values (32×32×3) take 75 MB an accumulator,
14 s of eigenvectors (two cores), 38 MB in the graph and 9.4 million multiplications an image.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow_transform import analyzer_nodes, analyzers

from image_pipeline.components import contract
from image_pipeline.components.errors import UserError
from image_pipeline.components.transform import statistics
from image_pipeline.components.transform.labels import make_labels

MAX_VALUES = 4096  # 64×64 in grey, 36×36 in colour: 134 MB an accumulator

# Added to every variance, of pixels in [0, 1]: directions of a standard deviation far below 0.03
# (8 grey levels) are mostly noise of sensor and compression, which whitening would blow up.
EPSILON = 1e-3

# Subtracted before products are summed. The sums stay integers, exact in float64 up to 2^53 / 128²
# = 5·10¹¹ images, and their mean is near 0, so that little cancels in the covariance.
_CENTER = 128


def whiten_zca(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Whitens by the symmetric matrix U (Λ + ε)^-½ Uᵀ: of all, it changes images the least.

    Values stay in place, so images still look like images and convolutions make sense (ZCA; Bell
    and Sejnowski 1997).
    """
    return _whiten(inputs, rotate_back=True)


def whiten_pca(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Whitens by (Λ + ε)^-½ Uᵀ: the coordinates along the principal axes, greatest variance first.

    They are laid out row by row in the image's shape, so that any model's input fits. Neighbours
    are no longer neighbouring pixels: a function for dense models, not for convolutions.
    """
    return _whiten(inputs, rotate_back=False)


def _whiten(inputs: Mapping[str, tf.Tensor], rotate_back: bool) -> dict[str, tf.Tensor]:
    images = inputs[contract.IMAGE_INPUT]
    shape = images.shape[1:]
    values = _flatten(images)
    # tf.Transform's `tft.pca` gives no variances, and its `tft.covariance` would leave the
    # eigenvectors to every batch: so a combiner of its kind, which finds the matrix once.
    mean, matrix, variances = analyzers._apply_cacheable_combiner(
        WhiteningCombiner(values.shape[1], rotate_back), values
    )
    variances = statistics.name_statistic("variances", variances)
    mean = statistics.name_statistic("mean_image", tf.reshape(mean + _CENTER, shape))
    centered = tf.cast(images, tf.float32) - tf.cast(mean, tf.float32)
    whitened = tf.matmul(tf.reshape(centered, [-1, values.shape[1]]), matrix)
    return {
        contract.IMAGE_OUTPUT: tf.reshape(whitened, [-1, *shape]),
        contract.LABEL_OUTPUT: statistics.keep_statistics(make_labels(inputs), [variances]),
    }


def _flatten(images: tf.Tensor) -> tf.Tensor:
    """uint8 [B, H, W, C] to float64 [B, D], centred."""
    if images.dtype != tf.uint8:
        raise UserError(
            "whitening takes 8-bit images, whose unit its least variance is given in, but "
            f"view.dtype={images.dtype.name}; use "
            "image_pipeline.components.transform.preprocessing.standardize."
        )
    size = images.shape[1:].num_elements()
    if size > MAX_VALUES:
        raise UserError(
            f"whitening takes images of at most {MAX_VALUES:,} values, and the view "
            f"{'×'.join(map(str, images.shape[1:]))} has {size:,}, a covariance of "
            f"{size**2 * 8 / 1e9:,.1f} GB; make view.height_px and view.width_px smaller, or use "
            "image_pipeline.components.transform.preprocessing.standardize."
        )
    return tf.cast(tf.reshape(tf.cast(images, tf.int32) - _CENTER, [-1, size]), tf.float64)


class WhiteningCombiner(analyzers.CovarianceCombiner):
    """tf.Transform's sums of products and of values, turned into a whitening matrix at the end."""

    def __init__(self, size: int, rotate_back: bool):
        """Whitens vectors of `size` values; `rotate_back` makes it ZCA, else it is PCA."""
        super().__init__((size, size), np.float64)
        self._rotate_back = rotate_back

    def extract_output(self, accumulator: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Makes mean float64 [D], matrix float32 [D, D] (x @ matrix) and variances float64 [D]."""
        products, total, count = accumulator
        mean = total / max(count, 1)
        covariance = (products - np.outer(mean, total)) / max(count, 1)
        variances, axes = np.linalg.eigh(covariance)
        variances, axes = np.maximum(variances[::-1], 0), axes[:, ::-1]
        # An eigenvector's sign is free; its greatest entry is made positive, on every machine.
        signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
        axes = axes * signs
        # In grey levels: EPSILON is of pixels in [0, 1].
        matrix = axes / np.sqrt(variances + EPSILON * 255**2)
        if self._rotate_back:
            matrix = matrix @ axes.T
        return [mean, matrix.astype(np.float32), variances]

    def output_tensor_infos(self) -> list[analyzer_nodes.TensorInfo]:
        """What `extract_output` makes."""
        size = self._output_shape[0]
        return [
            analyzer_nodes.TensorInfo(tf.float64, (size,), None),
            analyzer_nodes.TensorInfo(tf.float32, (size, size), None),
            analyzer_nodes.TensorInfo(tf.float64, (size,), None),
        ]
