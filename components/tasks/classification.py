"""One class an image."""

import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.labels import classes
from image_pipeline.components.models.names import Head
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.signatures import CLASSES, LABEL, PROBABILITIES
from image_pipeline.components.tasks.task import Measure, Softmax
from image_pipeline.components.views.options import ViewOptions


class Classification(Softmax):
    """Labels are class ids, int64 [batch], or shares of classes; outputs are probabilities."""

    label = classes.CLASSES
    default_model = "small"
    head: Head = "classes"
    each = "image"
    leaves_out_unknown = True
    sliced_by_label = True
    truth = LABEL
    prediction = PROBABILITIES

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The label vocabulary."""
        return read_class_names(transform_graph_dir)

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

        A row that is not valid has probabilities of 0 (which NaN is not: JSON has none) and an
        empty label.
        """
        probabilities = tf.where(is_valid[:, tf.newaxis], outputs, 0.0)
        likeliest = tf.gather(class_names, tf.argmax(probabilities, axis=1))
        # Repeated for every row: TensorFlow Serving splits all outputs along the batch.
        names = tf.tile(class_names[tf.newaxis], [tf.shape(probabilities)[0], 1])
        label = tf.where(is_valid, likeliest, b"")
        return {PROBABILITIES: probabilities, CLASSES: names, LABEL: label}

    def answer_records(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Probabilities."""
        return {PROBABILITIES: outputs}

    def read_truth(
        self, examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
    ) -> dict[str, tf.Tensor]:
        """Class ids, -1 if unknown."""
        further = [column for column in transform.columns if column.key != record.LABEL]
        columns = [parse.LABEL_COLUMN, *further]
        features = tf.io.parse_example(examples, parse.feature_spec(columns))
        # The transform graph wants images as well; ids do not depend on them.
        size = view.height_px, view.width_px, view.channels
        blank = tf.zeros([tf.size(features[record.LABEL]), *size], view.dtype)
        own = {contract.IMAGE_INPUT: blank, contract.LABEL_INPUT: features[record.LABEL]}
        return {LABEL: transform({**features, **own})[1]}

    def measures(self, options: EvaluationOptions) -> tuple[Measure, ...]:
        """The accuracy."""
        return (Measure(class_name="SparseCategoricalAccuracy", at_least=options.min_accuracy),)


CLASSIFICATION = Classification()
