"""What a model learns: what labels and outputs mean, how a model is checked, served and judged.

A task is chosen by what the data set has; see `choose_task.py`. Each is a file of its own.
"""

import dataclasses
from typing import Protocol

import numpy as np
import tensorflow as tf

from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.training.options import EvaluationOptions, TrainingOptions
from image_pipeline.components.views.options import ViewOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """A metric that TFMA computes over the eval split.

    Attributes:
      class_name: the metric's class, of Keras, TFMA or `module`.
      module: the module of a metric of our own.
      at_least, at_most: the bound that a model must keep to be blessed, if it is judged by this.
    """

    class_name: str
    module: str = ""
    at_least: float | None = None
    at_most: float | None = None


class Task(Protocol):
    """What a model learns.

    Attributes:
      default_model: dotted path of the model where `training.model` was left at its default.
      each: what a row of the model's outputs belongs to: an image, or a pixel.
      activation: the name of what makes final outputs of logits, "softmax" say.
      leaves_out_unknown: whether labels may be -1, for records that then count nowhere.
      sliced_by_label: whether evaluation measures each class name's records by themselves.
      truth: the output of the signature for features that predictions are compared with.
      prediction: the output of the signature for records that is compared with it.
    """

    default_model: str
    each: str
    activation: str
    leaves_out_unknown: bool
    sliced_by_label: bool
    truth: str
    prediction: str

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The names of the model's output values, in their order."""
        ...

    def check_options(self, feeding: FeedingOptions, training: TrainingOptions) -> None:
        """Raises UserError if options exclude each other."""
        ...

    def lead_shape(self, view: ViewOptions) -> tuple[int, ...]:
        """The shape of the outputs between batch and values: () or (height, width)."""
        ...

    def make_labels(self, outputs: tf.Tensor, mixes_labels: bool) -> tuple[tf.Tensor, str]:
        """Labels for outputs, to try a loss with, and what to call them."""
        ...

    def are_final(self, rows: np.ndarray, close: float) -> bool:
        """Whether outputs, float64 [rows, values], are final ones: no logits."""
        ...

    def finish(self, logits: tf.Tensor) -> tf.Tensor:
        """Final outputs of logits."""
        ...

    def answer_files(
        self, outputs: tf.Tensor, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """What the signature for image files answers, beside the validity of each row.

        Args:
          outputs: float32 [batch, …, values], final.
          is_valid: bool [batch].
          class_names: string [values].
        """
        ...

    def answer_records(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """What the signature for records answers; a float that is not finite must show in it."""
        ...

    def read_truth(
        self, examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
    ) -> dict[str, tf.Tensor]:
        """What the signature for features answers: the truth of records, string [batch]."""
        ...

    def measures(self, options: EvaluationOptions) -> tuple[Measure, ...]:
        """What is measured; the first decides whether a model is good enough."""
        ...
