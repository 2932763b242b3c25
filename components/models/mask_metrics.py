"""Loss and metrics of masks: pixels of `record.IGNORED` count in none of them."""

import keras

from image_pipeline.components.dataset import record
from image_pipeline.components.models.model import cross_entropy_of_ids


@keras.saving.register_keras_serializable("image_pipeline", "cross_entropy_of_masks")
def cross_entropy(masks: keras.KerasTensor, probabilities: keras.KerasTensor) -> keras.KerasTensor:
    """Cross entropy of each pixel's class.

    Args:
      masks: int [batch, height, width], class ids.
      probabilities: float32 [batch, height, width, classes].

    Returns:
      float32 [batch, height, width]; Keras leaves ignored pixels out of the mean.
    """
    return cross_entropy_of_ids(masks, probabilities, record.IGNORED)


@keras.saving.register_keras_serializable("image_pipeline")
class MeanIoU(keras.metrics.MeanIoU):
    """The mean, over the classes that occur, of intersection over union.

    A class occurs if a mask has it or it is predicted. Counts of pixels are whole numbers of 64
    bits: a large data set has more pixels than the 32 bits of Keras's own can count.
    """

    def __init__(self, num_classes: int, name: str = "mean_io_u", dtype: str | None = None):
        """Takes the number of classes, and what Keras gives to every metric."""
        super().__init__(
            num_classes,
            name=name,
            dtype=dtype or "int64",
            ignore_class=record.IGNORED,
            sparse_y_pred=False,
        )

    def get_config(self) -> dict:
        """What makes another one like it."""
        return {"num_classes": self.num_classes, "name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable("image_pipeline")
class PixelAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of pixels whose likeliest class is the mask's."""

    def __init__(self, name: str = "pixel_accuracy", dtype: str | None = None):
        """Takes what Keras gives to every metric."""
        super().__init__(
            keras.metrics.sparse_categorical_accuracy, name=name, dtype=dtype or "float64"
        )

    def update_state(
        self,
        y_true: keras.KerasTensor,
        y_pred: keras.KerasTensor,
        sample_weight: keras.KerasTensor | None = None,
    ) -> None:
        """Counts a batch; masks and predictions are those of `cross_entropy`."""
        weight = keras.ops.cast(keras.ops.not_equal(y_true, record.IGNORED), self.dtype)
        if sample_weight is not None:
            weight *= keras.ops.cast(sample_weight, self.dtype)
        super().update_state(y_true, y_pred, weight)

    def get_config(self) -> dict:
        """What makes another one like it."""
        return {"name": self.name, "dtype": self.dtype}
