"""The exported model: decoding, view, transform graph and network in one SavedModel.

It needs plain TensorFlow only, and makes its images with the very functions that evaluation uses.
Every signature takes one batch, of strings or of pixels, and answers in the same order. A file that
is damaged or not an image is reported in its own row; the others are answered.
"""

import io
import os
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import keras
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from image_pipeline.components import files
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.certificate import Certificate, write_certificate
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.served.decode import ALL_LEVELS, take_views, trace_decoder
from image_pipeline.components.served.kinds import explain_unserved
from image_pipeline.components.served.values import decode_values, explain_unread
from image_pipeline.components.tasks.image_tasks import CLASSIFICATION
from image_pipeline.components.tasks.signatures import (
    EMBED_EXAMPLES,
    EMBEDDING,
    ERROR,
    EXAMPLES,
    EXTRA_FOLDER,
    IMAGE_BYTES,
    MODEL_FILE,
    PIXELS,
    SERVE_EXAMPLES,
    SERVE_IMAGES,
    SERVE_PIXELS,
    TRANSFORM_FEATURES,
    VALID,
)
from image_pipeline.components.tasks.task import Task
from image_pipeline.components.training.model_check import CheckedModel, check_for_export
from image_pipeline.components.training.non_finite import are_finite, check_probabilities
from image_pipeline.components.trees import write_tree
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions

_WHITE = (255, 255, 255)
WARM_UP_FILE = (EXTRA_FOLDER, "tf_serving_warmup_requests")  # TensorFlow Serving's own name


def export_model(
    model: keras.Model,
    transform_graph_dir: str,
    view: ViewOptions,
    class_names: Sequence[str],
    export_dir: str,
    gives_logits: bool = False,
    task: Task = CLASSIFICATION,
    fed: Certificate | None = None,
) -> None:
    """Writes the SavedModel, with the signatures that `signatures.py` names.

    Args:
      model: built; float32 [batch, height, width, channels] → what the task says.
      transform_graph_dir: the folder of the transform graph that the model was trained behind.
      view: the model's input size.
      class_names: names of the output's values, in their order.
      export_dir: where the SavedModel goes.
      gives_logits: whether the model gives logits, so that their activation is added.
      task: what the model has learned.
      fed: what it was fed, which goes with it; None if that is not known.

    Raises:
      UserError: if the model's weights, or its outputs for a grey image, are not finite.
      ValueError: if there are not as many names as values.
    """
    transform = TransformGraph(transform_graph_dir)
    served = ServedModel(model, transform, view, class_names, gives_logits, task)
    _check_answers(served, model, view, len(class_names), task)
    signatures = {
        SERVE_IMAGES: _batch_signature(served.serve_images, IMAGE_BYTES),
        SERVE_EXAMPLES: _batch_signature(served.serve_examples, EXAMPLES),
        TRANSFORM_FEATURES: _batch_signature(served.transform_features, EXAMPLES),
        SERVE_PIXELS: _batch_signature(served.serve_pixels, PIXELS, served.views_spec),
    }
    if served.can_embed:
        signatures[EMBED_EXAMPLES] = _batch_signature(served.embed_examples, EXAMPLES)
    with write_tree(export_dir, last=MODEL_FILE) as folder:
        tf.saved_model.save(served, folder, signatures=signatures)
        _write_warm_up(folder, view)
        if fed is not None:
            write_certificate(os.path.join(folder, EXTRA_FOLDER), fed)


def export_trained(model: keras.Model, transform_graph_dir: str, export_dir: str) -> None:
    """`export_model` of a model that was trained elsewhere, with all that its graph says of it.

    Raises:
      UserError: if the model cannot be exported, or there is no such graph.
    """
    if files.is_file(export_dir):
        raise UserError(
            f"The model goes into a folder, but {export_dir!r} is a file; name another."
        )
    checked, view, names = check_for_export(model, transform_graph_dir)
    export_model(
        model, transform_graph_dir, view, names, export_dir, checked.gives_logits, checked.task
    )


class ServedModel(tf.Module):
    """What the signatures do."""

    def __init__(
        self,
        model: keras.Model,
        transform: TransformGraph,
        view: ViewOptions,
        class_names: Sequence[str],
        gives_logits: bool = False,
        task: Task = CLASSIFICATION,
    ):
        """Holds what the signatures need, so that it is saved with them."""
        super().__init__()
        # Saved are the network's weights, as TensorFlow's own variables: TensorFlow Serving and
        # BulkInferrer restore no others. A function is not tracked, and so neither is the Keras
        # model, which would bring the optimizer's state, twice the weights, along.
        self.weights = [weight.value for weight in model.weights]
        network = CheckedModel(model, gives_logits, task)
        self._network = lambda images: network.predict(images)
        embedder = _find_embedder(model) if task is CLASSIFICATION else None
        self.can_embed = embedder is not None
        self._embed = lambda images: embedder and embedder(images, training=False)
        self._task = task
        self.transform = transform
        self._view = view
        self._class_names = tf.constant(class_names)
        # How ingest made the stored images; of a graph of tf.Transform's own that is not known.
        analysis, self._background = transform.analysis, _WHITE
        self._stored_type: str = view.dtype
        self._sound, self._depth, self._square = None, ALL_LEVELS, None
        if analysis is not None:
            red, green, blue = analysis.alpha_background
            self._background = red, green, blue
            self._stored_type, self._sound = analysis.dtype, analysis.sound
            self._depth, self._square = (analysis.depth[0], analysis.depth[1]), analysis.resize
        if self._depth != ALL_LEVELS:
            # For who decodes what the model cannot: a function, since no constant is restored.
            self.depth = tf.function(
                lambda: tf.constant(self._depth, tf.int32), input_signature=[], autograph=False
            )
        if self._sound is not None:
            sound = self._sound.model_dump_json()
            self.sound = tf.function(
                lambda: tf.constant(sound), input_signature=[], autograph=False
            )
        self.views_spec = tf.TensorSpec([None, *self._size()], view.dtype)
        # As signatures call it PREDICT_VIEWS: what has no text in it can leave TensorFlow. What
        # answers calls it: traced for each signature, a large network would take seconds more.
        self.predict_views = tf.function(
            self.predict, input_signature=[self.views_spec], autograph=False
        )
        # Not all are weights to Keras: seeds of noise used in inference, plain tf.Variables.
        used = self.predict_views.get_concrete_function().graph.variables
        kept = {id(weight) for weight in self.weights}
        self.states = [variable for variable in used if id(variable) not in kept]

    def serve_images(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers for image files: string [batch] → the task's outputs, VALID and ERROR."""
        blank = (tf.zeros(self._size(), self._view.dtype), tf.zeros([4]))
        (images, windows), errors = take_views(self._view_file, image_bytes, blank, self._explain)
        is_valid = errors == b""
        outputs = self.predict_views(images)
        own = self._task.answer_files(outputs, is_valid, self._class_names)
        return {**self._task.place_answers(own, windows), VALID: is_valid, ERROR: errors}

    def serve_pixels(self, pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers for views that the caller has decoded: as PIXELS says → the task's outputs.

        The outputs are those for files of these views, to the last bit. Boxes are in the view.
        """
        is_valid = tf.fill(tf.shape(pixels)[:1], True)
        return self._task.answer_files(self.predict_views(pixels), is_valid, self._class_names)

    def _explain(self, files: tf.Tensor) -> tf.Tensor:
        """Why files gave no view: string [batch] → string [batch]."""
        if self._has_values:
            return explain_unread(files, self._stored_type, self._view.channels)
        return explain_unserved(files, self._sound)

    def _view_file(self, file: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The view of an image file that ingest's stored copy of it would have, and its window."""
        if self._has_values:
            image = decode_values(file, self._stored_type, self._view)
        else:
            decode = trace_decoder(self._view.channels, self._background, self._sound, self._depth)
            image = decode(file)
        if self._square is not None:
            image = views.squeeze(image, self._square.size_px, self._square.enlarge)
        corners, lengths = views.place_views(tf.shape(image)[tf.newaxis, :2], self._view)
        window = tf.cast(tf.concat([corners[0], lengths[0]], axis=0), tf.float32)
        return views.trace_eval_view(self._view)(image), window

    @property
    def _has_values(self) -> bool:
        """Whether images are of other values than 8-bit gray or RGB."""
        return self._view.dtype != "uint8" or self._view.channels not in (1, 3)

    def _size(self) -> tuple[int, int, int]:
        return self._view.height_px, self._view.width_px, self._view.channels

    def serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers for records: string [batch] → the task's outputs."""
        return self._task.answer_records(self.predict_views(self._view_records(examples)))

    def embed_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """What the last layer sees of records: string [batch] → float32 [batch, any]."""
        seen = self._embed(self.transform.transform_images(self._view_records(examples)))
        return {EMBEDDING: tf.cast(seen, tf.float32)}

    def transform_features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Reads the truth of records: string [batch] → the task's outputs."""
        return self._task.read_truth(examples, self.transform, self._view)

    def _view_records(self, examples: tf.Tensor) -> tf.Tensor:
        """The deterministic view of each record: `view.dtype` [batch, height, width, channels]."""
        take_view = views.trace_eval_view(self._view)

        def view_record(serialized: tf.Tensor) -> tf.Tensor:
            features = parse.parse_record(serialized, parse.IMAGE_COLUMNS)
            return take_view(parse.decode_record(features, self._view))

        spec = tf.TensorSpec(self._size(), self._view.dtype)
        return tf.map_fn(view_record, examples, fn_output_signature=spec)

    def predict(self, images: tf.Tensor) -> Any:
        """The network's final outputs for views of images, float32."""
        return self._network(self.transform.transform_images(images))


def _check_answers(
    served: ServedModel, model: keras.Model, view: ViewOptions, num_classes: int, task: Task
) -> None:
    """Tries a grey image: an exported model must give a finite value for each class."""
    grey = tf.fill([1, view.height_px, view.width_px, view.channels], tf.constant(128, view.dtype))
    outputs = served.predict_views(grey)
    for each in tf.nest.flatten(outputs):
        check_probabilities(each.numpy(), "a grey image")
    found = task.find_values(outputs)
    if (values := 0 if found is None else found.shape[-1]) != num_classes:
        raise ValueError(
            f"class_names must name the model's {values} classes, "
            f"got {num_classes} names; pass the transform graph's vocabulary."
        )
    if not are_finite(model.weights):
        raise UserError(
            "the model's weights must be finite to be exported, but some are NaN or infinite; "
            "lower training.learning_rate and train again."
        )


def _batch_signature(
    function: Callable, input_name: str, spec: tf.TensorSpec | None = None
) -> tf.types.experimental.GenericFunction:
    """Makes a signature of one input, string [batch] unless `spec` is another.

    Nothing here needs autograph, which would translate each function first: a quarter of the time
    that tracing takes. Models were traced without it before they were trained (`model_check`).
    """
    spec = spec or tf.TensorSpec([None], tf.string)
    named = tf.TensorSpec(spec.shape, spec.dtype, name=input_name)
    return tf.function(function, autograph=False).get_concrete_function(named)


def _find_embedder(model: keras.Model) -> keras.Model | None:
    """The part of a network that ends before its last dense layer, and tells like images apart.

    Returns:
      A model from the same images to float [batch, any], with the same weights; None of a model
      whose layers are not joined in a graph of Keras's, or where that layer sees no vector.
    """
    dense = next((e for e in reversed(model.layers) if isinstance(e, keras.layers.Dense)), None)
    try:
        seen = dense.input  # type: ignore[union-attr]
        return keras.Model(model.inputs, seen) if len(seen.shape) == 2 else None
    except (AttributeError, ValueError):  # As Keras says that it knows no such graph.
        return None


def _write_warm_up(model_dir: str, view: ViewOptions) -> None:
    """Writes what TensorFlow Serving runs before it takes requests, so that the first is as fast.

    It looks for this file in a model's folder: records of `PredictionLog`. Here they are a request
    for each signature that callers use, of one grey image.
    """
    pixels = np.full((view.height_px, view.width_px, view.channels), 128, view.dtype)
    # As callers send it: a JPEG; of other values than 8-bit gray or RGB an `.npy` file.
    if pixels.dtype == np.uint8 and pixels.shape[-1] in (1, 3):
        encoded = cv2.imencode(".jpg", pixels)[1].tobytes()
    else:
        file = io.BytesIO()
        np.save(file, pixels)
        encoded = file.getvalue()
    content = b""
    for signature, name, value in (
        (SERVE_IMAGES, IMAGE_BYTES, np.array([encoded], object)),
        (SERVE_PIXELS, PIXELS, pixels[np.newaxis]),
    ):
        log = prediction_log_pb2.PredictionLog()
        request = log.predict_log.request
        request.model_spec.signature_name = signature
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        content += frame(log.SerializeToString())
    files.write_file(files.join(model_dir, *WARM_UP_FILE), content)
