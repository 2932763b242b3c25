"""A number an image."""

import numpy as np
import tensorflow as tf

from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.labels import values
from image_pipeline.components.models.names import Head
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.signatures import VALUE
from image_pipeline.components.tasks.tagging import transform_labels
from image_pipeline.components.tasks.task import Measure, OneTensor
from image_pipeline.components.views.options import ViewOptions


class Regression(OneTensor):
    """Labels are float32 [batch], as the table has them; outputs are float32 [batch, 1]."""

    label = values.VALUES
    default_model = "small"
    head: Head = "value"
    each = "image"
    activation = "linear"
    leaves_out_unknown = False
    sliced_by_label = False
    truth = VALUE
    prediction = VALUE

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The only output's name."""
        return [VALUE]

    def make_labels(self, outputs: tf.Tensor, gives_shares: bool) -> tuple[tf.Tensor, str]:
        """Ones."""
        return tf.ones(outputs.shape[:1]), "numbers, float32 [batch],"

    def are_final(self, rows: np.ndarray, close: float) -> bool:
        """Any number is."""
        return True

    def finish(self, outputs: tf.Tensor) -> tf.Tensor:
        """The same."""
        return outputs

    def answer_files(
        self, outputs: tf.Tensor, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Values; that of a row that is not valid is 0 (which NaN is not: JSON has none)."""
        return {VALUE: tf.where(is_valid, outputs[:, 0], 0.0)}

    def answer_records(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Values."""
        return {VALUE: outputs[:, 0]}

    def read_truth(
        self, examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
    ) -> dict[str, tf.Tensor]:
        """The records' own values."""
        return {VALUE: transform_labels(examples, transform, view)}

    def measures(self, options: EvaluationOptions) -> tuple[Measure, ...]:
        """The mean squared error, in the square of the label's unit, and the absolute one."""
        bound = options.max_mean_squared_error
        return (
            Measure(class_name="MeanSquaredError", at_most=bound),
            Measure(class_name="MeanAbsoluteError"),
        )


REGRESSION = Regression()
