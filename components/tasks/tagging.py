"""Any number of tags an image."""

import numpy as np
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.labels import tags
from image_pipeline.components.models.names import Head
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.signatures import CLASSES, LIKELY, PROBABILITIES, TAGS
from image_pipeline.components.tasks.task import Measure, OneTensor
from image_pipeline.components.views.options import ViewOptions


class Tagging(OneTensor):
    """Labels are float32 [batch, tags] of 0 and 1; outputs are each tag's probability."""

    label = tags.TAGS
    default_model = "small"
    head: Head = "tags"
    each = "image"
    activation = "sigmoid"
    leaves_out_unknown = False  # A record without tags has none of them.
    sliced_by_label = False
    truth = TAGS
    prediction = PROBABILITIES

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The vocabulary of tags."""
        return read_class_names(transform_graph_dir)

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
        # Repeated for every row: TensorFlow Serving splits all outputs along the batch.
        names = tf.tile(class_names[tf.newaxis], [tf.shape(probabilities)[0], 1])
        likely = tf.where(probabilities > LIKELY, names, b"")
        return {PROBABILITIES: probabilities, CLASSES: names, TAGS: likely}

    def answer_records(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Probabilities."""
        return {PROBABILITIES: outputs}

    def read_truth(
        self, examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
    ) -> dict[str, tf.Tensor]:
        """Tags, 0 or 1 each."""
        return {TAGS: transform_labels(examples, transform, view)}

    def measures(self, options: EvaluationOptions) -> tuple[Measure, ...]:
        """F1 over all images and tags, with each tag's precision, recall and F1."""
        module = "image_pipeline.components.evaluation.tag_scores"
        return (Measure(class_name="TagScores", module=module, at_least=options.min_f1),)


def transform_labels(
    examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
) -> tf.Tensor:
    """What a transform graph makes of the tags or values of records (string [batch])."""
    features = parse.parse_batch(examples, transform.columns)
    # The transform graph wants images and classes as well; these labels do not depend on them.
    count = tf.size(examples)
    blank = tf.zeros([count, view.height_px, view.width_px, view.channels], view.dtype)
    own = {contract.IMAGE_INPUT: blank, contract.LABEL_INPUT: tf.zeros([count], tf.string)}
    return transform({**features, **own})[1]


TAGGING = Tagging()
