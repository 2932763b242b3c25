"""What a model learns: what labels and outputs mean, how a model is checked, served and judged.

A task is chosen by what the data set has; see `choose_task.py`. Each is a file of its own.
"""

import dataclasses
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.models.names import Head
from image_pipeline.components.tasks.options import EvaluationOptions
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
      label: the kind of labels that it is for.
      default_model: the name of the model where `training.model` was left out.
      head: what a model for it ends in.
      each: what a row of the model's outputs belongs to: an image, a pixel, or a candidate.
      kind: what the model's outputs are: one tensor, or a dict.
      activation: the name of what makes final outputs of logits, "softmax" say.
      leaves_out_unknown: whether labels may be -1, for records that then count nowhere.
      sliced_by_label: whether evaluation measures each class name's records by themselves.
      truth: the output of the signature for features that predictions are compared with.
      prediction: the output of the signature for records that is compared with it.
    """

    label: LabelKind
    default_model: str
    head: Head
    each: str
    kind: str
    activation: str
    leaves_out_unknown: bool
    sliced_by_label: bool
    truth: str
    prediction: str

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The names of the model's output values, in their order."""
        ...

    def describe_shape(self, view: ViewOptions) -> str:
        """The outputs' shape and meaning, after their kind."""
        ...

    def has_shape(self, outputs: Any, images: int, view: ViewOptions) -> bool:
        """Whether outputs of the right kind have this shape, for so many images."""
        ...

    def find_values(self, outputs: Any) -> tf.Tensor | None:
        """What of the outputs is float [batch, …, values]; None if they are of another kind."""
        ...

    def make_labels(self, outputs: Any, gives_shares: bool) -> tuple[Any, str]:
        """Labels for outputs, to try a loss with, and what to call them."""
        ...

    def are_final(self, rows: np.ndarray, close: float) -> bool:
        """Whether outputs, float64 [rows, values], are final ones: no logits."""
        ...

    def finish(self, outputs: Any) -> Any:
        """Final outputs of such with logits."""
        ...

    def answer_files(
        self, outputs: Any, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """What the signature for image files answers, beside the validity of each row.

        Args:
          outputs: float32, final.
          is_valid: bool [batch].
          class_names: string [values].
        """
        ...

    def place_answers(
        self, answers: dict[str, tf.Tensor], windows: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The answers for image files with places in the images instead of their views.

        Args:
          answers: as `answer_files` gives them.
          windows: float32 [batch, 4]: where each view begins (top, left), and how long it is
            (height, width), as shares of its image's sides.
        """
        ...

    def answer_records(self, outputs: Any) -> dict[str, tf.Tensor]:
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


class OneTensor:
    """What tasks have in common whose models give one tensor of values."""

    kind = "one tensor"

    def lead_shape(self, view: ViewOptions) -> tuple[int, ...]:
        """The shape between batch and values: nothing, where a row of values is an image's."""
        return ()

    def describe_shape(self, view: ViewOptions) -> str:
        """Names the values by their number."""
        shape = ", ".join(map(str, ["batch", *self.lead_shape(view), "num_classes"]))
        return f"[{shape}] of probabilities"

    def has_shape(self, outputs: Any, images: int, view: ViewOptions) -> bool:
        """Whether there is a row wherever one belongs."""
        lead = [images, *self.lead_shape(view)]
        return list(outputs.shape)[:-1] == lead and outputs.dtype.is_floating

    def find_values(self, outputs: Any) -> tf.Tensor | None:
        """The outputs themselves."""
        return outputs if is_tensor(outputs) else None

    def place_answers(
        self, answers: dict[str, tf.Tensor], windows: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The same: they name no place."""
        return answers


class Softmax(OneTensor):
    """The same, of probabilities that sum to 1."""

    activation = "softmax"

    def are_final(self, rows: np.ndarray, close: float) -> bool:
        """Whether they are probabilities."""
        return bool((rows >= 0).all() and np.allclose(rows.sum(axis=1), 1, atol=close))

    def finish(self, outputs: tf.Tensor) -> tf.Tensor:
        """Probabilities."""
        return tf.nn.softmax(outputs)


def is_tensor(value: Any) -> bool:
    """Whether it is one, or, of a graph's outputs, stands for one."""
    return tf.is_tensor(value) or isinstance(value, tf.TensorSpec)
