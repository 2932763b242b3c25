"""What a model learns: what labels and outputs mean, how a model is checked, served and judged.

A task is chosen by what the data set has; see `choose_task.py`.
"""

import abc
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import CLASSES
from image_pipeline.components.models.names import Head
from image_pipeline.components.views.options import ViewOptions


class Task(abc.ABC):
    """What a model learns. What is written here holds for one that gives one tensor of values.

    Attributes:
      name: as configurations of components and `facts.json` have it.
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
      metrics: what is measured, by the names of `evaluation.metrics.METRICS`; the first one decides
        whether a model is good enough.
    """

    name: str
    label: LabelKind
    default_model = "small"
    head: Head
    each = "image"
    kind = "one tensor"
    activation: str
    leaves_out_unknown = False
    sliced_by_label = False
    truth: str
    prediction: str
    metrics: tuple[str, ...]

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The names of the model's output values, in their order: the label vocabulary."""
        return read_class_names(transform_graph_dir)

    def lead_shape(self, view: ViewOptions) -> tuple[int, ...]:
        """The shape between batch and values: nothing, where a row of values is an image's."""
        return ()

    def describe_shape(self, view: ViewOptions) -> str:
        """The outputs' shape and meaning, after their kind."""
        shape = ", ".join(map(str, ["batch", *self.lead_shape(view), "num_classes"]))
        return f"[{shape}] of probabilities"

    def has_shape(self, outputs: Any, images: int, view: ViewOptions) -> bool:
        """Whether outputs of the right kind have this shape, for so many images."""
        lead = [images, *self.lead_shape(view)]
        return list(outputs.shape)[:-1] == lead and outputs.dtype.is_floating

    def find_values(self, outputs: Any) -> tf.Tensor | None:
        """What of the outputs is float [batch, …, values]; None if they are of another kind."""
        return outputs if is_tensor(outputs) else None

    @abc.abstractmethod
    def make_labels(self, outputs: Any, gives_shares: bool) -> tuple[Any, str]:
        """Labels for outputs, to try a loss with, and what to call them."""

    @abc.abstractmethod
    def are_final(self, rows: np.ndarray, close: float) -> bool:
        """Whether outputs, float64 [rows, values], are final ones: no logits."""

    @abc.abstractmethod
    def finish(self, outputs: Any) -> Any:
        """Final outputs of such with logits."""

    @abc.abstractmethod
    def answer_files(
        self, outputs: Any, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """What the signature for image files answers, beside the validity of each row.

        Args:
          outputs: float32, final.
          is_valid: bool [batch].
          class_names: string [values].
        """

    def place_answers(
        self, answers: dict[str, tf.Tensor], windows: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The answers for image files with places in the images instead of their views.

        Args:
          answers: as `answer_files` gives them.
          windows: float32 [batch, 4]: where each view begins (top, left), and how long it is
            (height, width), as shares of its image's sides.
        """
        return answers

    def answer_records(self, outputs: Any) -> dict[str, tf.Tensor]:
        """What the signature for records answers; a float that is not finite must show in it."""
        return {self.prediction: outputs}

    def read_truth(
        self, examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
    ) -> dict[str, tf.Tensor]:
        """What the signature for features answers: the truth of records, string [batch].

        That is what the transform graph makes of their classes (-1 if unknown), tags or values.
        """
        columns = [parse.LABEL_COLUMN] if self.label is CLASSES else []
        known = {column.key for column in columns}
        columns += [column for column in transform.columns if column.key not in known]
        features = parse.parse_batch(examples, columns)
        # The graph wants all of its inputs; labels do not depend on the others.
        count = tf.size(examples)
        own = {
            contract.IMAGE_INPUT: tf.zeros(
                [count, view.height_px, view.width_px, view.channels], view.dtype
            ),
            contract.LABEL_INPUT: features[record.LABEL] if known else tf.zeros([count], tf.string),
        }
        return {self.truth: transform({**features, **own})[1]}


class Softmax(Task):
    """One whose values are probabilities that sum to 1."""

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


def repeat_names(class_names: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """All names for each of some rows: TensorFlow Serving splits all outputs along the batch."""
    return tf.tile(class_names[tf.newaxis], [tf.shape(rows)[0], 1])
