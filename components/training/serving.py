"""The exported model: decoding, view, transform graph and network in one SavedModel.

It needs plain TensorFlow only, and makes its images with the very functions that evaluation uses.
Every signature takes one batch of strings and answers in the same order. A file that is damaged or
not an image is reported in its own row; the others are classified.
"""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.graph import TransformGraph, read_alpha_background
from image_pipeline.components.served.checked import take_views
from image_pipeline.components.served.decode import decode_image
from image_pipeline.components.training.model_check import CheckedModel
from image_pipeline.components.training.non_finite import are_finite, check_probabilities
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions

# Signatures.
SERVE_IMAGES = "serving_default"  # image files → probabilities and class names
SERVE_EXAMPLES = "serving_examples"  # records → probabilities
TRANSFORM_FEATURES = "transform_features"  # records → class ids, which evaluation compares with

# Their inputs, string [batch].
IMAGE_BYTES = "image_bytes"  # JPEG, PNG, WebP, GIF or BMP files
EXAMPLES = "examples"  # serialized tf.train.Example, with the columns that ingest writes

# Their outputs.
PROBABILITIES = "probabilities"  # float32 [batch, classes], in the order of the vocabulary
CLASSES = "classes"  # string [batch, classes], the names in the same order, the same in every row
# Of SERVE_IMAGES, string [batch]: the likeliest class. Of TRANSFORM_FEATURES, int64 [batch]: the
# true one's id, or -1.
LABEL = "label"
# Of SERVE_IMAGES. A row that is not valid has probabilities of 0 (which NaN is not: JSON has none)
# and an empty label.
VALID = "valid"  # bool [batch]: whether the file could be decoded
ERROR = "error"  # string [batch]: why not, as ingest names it; empty of a valid row


def export_model(
    model: keras.Model,
    transform_graph_dir: str,
    view: ViewOptions,
    class_names: Sequence[str],
    export_dir: str,
    gives_logits: bool = False,
) -> None:
    """Writes the SavedModel, with the three signatures named above.

    Args:
      model: built; float32 [batch, height, width, channels] → probabilities [batch, classes].
      transform_graph_dir: the folder of the transform graph that the model was trained behind.
      view: the model's input size.
      class_names: the vocabulary, in the order of the probabilities.
      export_dir: where the SavedModel goes.
      gives_logits: whether to add a softmax, because the model gives logits.

    Raises:
      UserError: if the model's weights, or its answers for a grey image, are not finite.
      ValueError: if there are not as many names as probabilities.
    """
    background = read_alpha_background(transform_graph_dir)
    transform = TransformGraph(transform_graph_dir)
    classifier = Classifier(model, transform, view, class_names, gives_logits, background)
    _check_answers(classifier, model, view, len(class_names))
    tf.saved_model.save(
        classifier,
        export_dir,
        signatures={
            SERVE_IMAGES: _batch_signature(classifier.serve_images, IMAGE_BYTES),
            SERVE_EXAMPLES: _batch_signature(classifier.serve_examples, EXAMPLES),
            TRANSFORM_FEATURES: _batch_signature(classifier.transform_features, EXAMPLES),
        },
    )


class Classifier(tf.Module):
    """What the signatures do."""

    def __init__(
        self,
        model: keras.Model,
        transform: TransformGraph,
        view: ViewOptions,
        class_names: Sequence[str],
        gives_logits: bool = False,
        background: tuple[int, int, int] = (255, 255, 255),
    ):
        """Holds what the signatures need, so that it is saved with them.

        Args:
          model: as in `export_model`.
          transform: the graph that it was trained behind.
          view: the model's input size.
          class_names: the vocabulary.
          background: RGB colour on which ingest laid transparent images.
        """
        super().__init__()
        # Saved are the network's weights, as TensorFlow's own variables: TensorFlow Serving and
        # BulkInferrer restore no others. A function is not tracked, and so neither is the Keras
        # model, which would bring the optimizer's state, twice the weights, along.
        self.weights = [weight.value for weight in model.weights]
        network = CheckedModel(model, gives_logits)
        self._network = lambda images: network.classify(images)
        self.transform = transform
        self._view = view
        self._class_names = tf.constant(class_names)
        self._background = background
        # Not all are weights to Keras: seeds of noise used in inference, plain tf.Variables.
        images = tf.TensorSpec([None, *self._size()], tf.uint8)
        used = tf.function(self.classify).get_concrete_function(images).graph.variables
        kept = {id(weight) for weight in self.weights}
        self.states = [variable for variable in used if id(variable) not in kept]

    def serve_images(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies image files: string [batch] → all outputs that are named above."""
        images, errors = take_views(self._view_file, image_bytes, self._size())
        is_valid = errors == b""
        probabilities = self.classify(images)
        probabilities = tf.where(is_valid[:, tf.newaxis], probabilities, 0.0)
        likeliest = tf.gather(self._class_names, tf.argmax(probabilities, axis=1))
        # Repeated for every row: TensorFlow Serving splits all outputs along the batch.
        names = tf.tile(self._class_names[tf.newaxis], [tf.shape(probabilities)[0], 1])
        return {
            PROBABILITIES: probabilities,
            CLASSES: names,
            LABEL: tf.where(is_valid, likeliest, b""),
            VALID: is_valid,
            ERROR: errors,
        }

    def _view_file(self, file: tf.Tensor) -> tf.Tensor:
        """The view of an image file that ingest's stored copy of it would have."""
        image = decode_image(file, self._view.channels, self._background)
        return views.eval_view(image, self._view)

    def _size(self) -> tuple[int, int, int]:
        return self._view.height_px, self._view.width_px, self._view.channels

    def serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies records: string [batch] → PROBABILITIES."""
        return {PROBABILITIES: self.classify(self._map_views(self._decode_example, examples))}

    def transform_features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Looks up the class ids of records: string [batch] → LABEL, -1 if unknown."""
        further = [column for column in self.transform.columns if column.key != record.LABEL]
        columns = [parse.LABEL_COLUMN, *further]
        features = tf.io.parse_example(examples, parse.feature_spec(columns))
        # The transform graph wants images as well; ids do not depend on them.
        blank = tf.zeros([tf.size(features[record.LABEL]), *self._size()], tf.uint8)
        own = {contract.IMAGE_INPUT: blank, contract.LABEL_INPUT: features[record.LABEL]}
        return {LABEL: self.transform({**features, **own})[1]}

    def _decode_example(self, serialized: tf.Tensor) -> tf.Tensor:
        """Decodes one record's image: uint8 [height, width, channels]."""
        features = parse.parse_record(serialized, parse.IMAGE_COLUMNS)
        return parse.decode_record(features, self._view.channels)

    def _map_views(self, decode: Callable[[tf.Tensor], tf.Tensor], strings: tf.Tensor) -> tf.Tensor:
        """Takes each string's deterministic view: uint8 [batch, height, width, channels]."""
        return tf.map_fn(
            lambda string: views.eval_view(decode(string), self._view),
            strings,
            fn_output_signature=tf.TensorSpec(self._size(), tf.uint8),
        )

    def classify(self, images: tf.Tensor) -> tf.Tensor:
        """Normalises and classifies uint8 images: float32 [batch, classes]."""
        return self._network(self.transform.transform_images(images))


def _check_answers(
    classifier: Classifier, model: keras.Model, view: ViewOptions, num_classes: int
) -> None:
    """Classifies a grey image: an exported model must give a finite probability for each class."""
    grey = tf.fill([1, view.height_px, view.width_px, view.channels], tf.constant(128, tf.uint8))
    probabilities = check_probabilities(classifier.classify(grey).numpy(), "a grey image")
    if probabilities.shape[1] != num_classes:
        raise ValueError(
            f"class_names must name the model's {probabilities.shape[1]} classes, "
            f"got {num_classes} names; pass the transform graph's vocabulary."
        )
    if not are_finite(model.weights):
        raise UserError(
            "the model's weights must be finite to be exported, but some are NaN or infinite; "
            "lower training.learning_rate and train again."
        )


def _batch_signature(function: Callable, input_name: str) -> tf.types.experimental.GenericFunction:
    """Makes a signature of one input, string [batch]."""
    return tf.function(function).get_concrete_function(
        tf.TensorSpec([None], tf.string, name=input_name)
    )
