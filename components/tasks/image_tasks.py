"""What has one answer an image: a class, any number of tags, or a number."""

import numpy as np
import tensorflow as tf

from image_pipeline.components.labels import kinds
from image_pipeline.components.models.names import Head
from image_pipeline.components.tasks.signatures import (
    CLASSES,
    LABEL,
    LIKELY,
    PROBABILITIES,
    TAGS,
    VALUE,
)
from image_pipeline.components.tasks.task import Softmax, Task, repeat_names


class Classification(Softmax):
    """Labels are class ids, int64 [batch], or shares of classes; outputs are probabilities."""

    name = "classification"
    label = kinds.CLASSES
    head: Head = "classes"
    leaves_out_unknown = True
    sliced_by_label = True
    truth = LABEL
    prediction = PROBABILITIES
    metrics = ("sparse_categorical_accuracy",)

    def make_labels(self, outputs: tf.Tensor, gives_shares: bool) -> tuple[tf.Tensor, str]:
        """Ids of the first class, or all of its share."""
        ids = tf.zeros(outputs.shape[:1], tf.int64)
        if gives_shares:
            shares = tf.one_hot(ids, int(outputs.shape[1]))
            return shares, "shares of classes, float32 [batch, classes],"
        return ids, "class ids"

    def answer_files(
        self, outputs: tf.Tensor, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Probabilities, names, and the likeliest one.

        An invalid row has probabilities of 0, because JSON cannot hold NaN, and an empty label.
        """
        probabilities = tf.where(is_valid[:, tf.newaxis], outputs, 0.0)
        likeliest = tf.gather(class_names, tf.argmax(probabilities, axis=1))
        return {
            PROBABILITIES: probabilities,
            CLASSES: repeat_names(class_names, probabilities),
            LABEL: tf.where(is_valid, likeliest, b""),
        }


class Tagging(Task):
    """Labels are float32 [batch, tags] of 0 and 1; outputs are each tag's probability."""

    name = "tagging"
    label = kinds.TAGS
    head: Head = "tags"
    activation = "sigmoid"
    truth = TAGS
    prediction = PROBABILITIES
    metrics = ("f1",)

    def make_labels(self, outputs: tf.Tensor, gives_shares: bool) -> tuple[tf.Tensor, str]:
        """The first tag only."""
        ids = tf.zeros(outputs.shape[:1], tf.int64)
        return tf.one_hot(ids, int(outputs.shape[1])), "tags, float32 [batch, tags],"

    def are_final(self, rows: np.ndarray, close: float) -> bool:
        """Whether they are probabilities; a sigmoid never gives the 0 of an unlit logit."""
        return bool(((rows > 0) & (rows < 1)).all())

    def finish(self, outputs: tf.Tensor) -> tf.Tensor:
        """Probabilities."""
        return tf.nn.sigmoid(outputs)

    def answer_files(
        self, outputs: tf.Tensor, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Probabilities, names, and those that are likely.

        A row that is not valid has probabilities of 0, and so no tags.
        """
        probabilities = tf.where(is_valid[:, tf.newaxis], outputs, 0.0)
        names = repeat_names(class_names, probabilities)
        likely = tf.where(probabilities > LIKELY, names, b"")
        return {PROBABILITIES: probabilities, CLASSES: names, TAGS: likely}


class Regression(Task):
    """Labels are float32 [batch], as the table has them; outputs are float32 [batch, 1]."""

    name = "regression"
    label = kinds.VALUES
    head: Head = "value"
    activation = "linear"
    truth = VALUE
    prediction = VALUE
    metrics = ("mean_squared_error", "mean_absolute_error")

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
        """The predicted values; 0 for invalid rows, because JSON cannot hold NaN."""
        return {VALUE: tf.where(is_valid, outputs[:, 0], 0.0)}

    def answer_records(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Values."""
        return {VALUE: outputs[:, 0]}


CLASSIFICATION: Task = Classification()
TAGGING: Task = Tagging()
REGRESSION: Task = Regression()
