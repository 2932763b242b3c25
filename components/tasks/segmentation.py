"""One class a pixel: masks."""

import numpy as np
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.labels import masks
from image_pipeline.components.models.names import Head
from image_pipeline.components.tasks.signatures import CLASSES, CONFIDENCE, MASK, MASK_BYTES
from image_pipeline.components.tasks.task import Softmax, Task, repeat_names
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions


class Segmentation(Softmax):
    """Labels are masks, int32 [batch, height, width]; outputs are each pixel's probabilities."""

    name = "segmentation"
    label = masks.MASKS
    default_model = "unet"
    head: Head = "masks"
    each = "pixel"
    truth = MASK
    prediction = MASK
    metrics = ("mean_io_u",)  # with each class's, and the share of pixels that are right

    def read_class_names(self, transform_graph_dir: str) -> list[str]:
        """The masks' classes, in the order of their ids."""
        return read_graph(transform_graph_dir).mask_classes or []

    def lead_shape(self, view: ViewOptions) -> tuple[int, ...]:
        """A row of probabilities for each pixel of the input."""
        return view.height_px, view.width_px

    def make_labels(self, outputs: tf.Tensor, gives_shares: bool) -> tuple[tf.Tensor, str]:
        """Masks of the first class, their first rows ignored."""
        count, height, width = outputs.shape[:3]
        ignored = tf.fill([count, 1, width], record.IGNORED)
        masks = tf.concat([ignored, tf.zeros([count, height - 1, width], tf.int32)], axis=1)
        kind = f"masks, int32 [batch, height, width], {record.IGNORED} where no class is asked,"
        return masks, kind

    def answer_files(
        self, outputs: tf.Tensor, is_valid: tf.Tensor, class_names: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The masks, also as PNG, and how certain they are.

        A row that is not valid is ignored everywhere, of a confidence of 0, and has no PNG.
        """
        answers = self.answer_records(outputs)
        masks = tf.where(is_valid[:, tf.newaxis, tf.newaxis], answers[MASK], record.IGNORED)
        encoded = tf.map_fn(
            tf.io.encode_png,
            masks[..., tf.newaxis],
            fn_output_signature=tf.TensorSpec([], tf.string),
        )
        return {
            MASK: masks,
            MASK_BYTES: tf.where(is_valid, encoded, b""),
            CONFIDENCE: tf.where(is_valid, answers[CONFIDENCE], 0.0),
            CLASSES: repeat_names(class_names, masks),
        }

    def answer_records(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """The masks, and how certain they are: NaN if any probability is not finite.

        Without the probabilities, which are 4 · classes times as large as a mask.
        """
        likeliest = tf.reduce_mean(tf.reduce_max(outputs, axis=-1), axis=[1, 2])
        # The greatest of some numbers may be one although another is NaN.
        is_finite = tf.reduce_all(tf.math.is_finite(outputs), axis=[1, 2, 3])
        nothing = tf.fill(tf.shape(likeliest), np.float32("nan"))
        return {
            MASK: tf.cast(tf.argmax(outputs, axis=-1), tf.uint8),
            CONFIDENCE: tf.where(is_finite, likeliest, nothing),
        }

    def read_truth(
        self, examples: tf.Tensor, transform: TransformGraph, view: ViewOptions
    ) -> dict[str, tf.Tensor]:
        """The masks, as the model sees their images."""

        def read_mask(serialized: tf.Tensor) -> tf.Tensor:
            stored = parse.parse_record(serialized, [record.MASK_COLUMN])[record.MASK]
            mask = tf.io.decode_png(stored, channels=1)
            return tf.squeeze(views.eval_mask_view(mask, view), -1)

        spec = tf.TensorSpec([view.height_px, view.width_px], tf.uint8)
        return {MASK: tf.map_fn(read_mask, examples, fn_output_signature=spec)}


SEGMENTATION: Task = Segmentation()
