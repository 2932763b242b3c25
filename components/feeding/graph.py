"""The saved transform graph, applied to batches by plain TensorFlow."""

import os

import tensorflow as tf

from components.transform import contract

# Where tf.Transform puts its SavedModel (`tft.TFTransformOutput.TRANSFORM_FN_DIR`), spelled here
# because importing tf.Transform for it would cost every reader of batches ten seconds.
_SAVED_MODEL_DIR = "transform_fn"


class TransformGraph(tf.Module):
    """What tf.Transform learnt from the whole data set, as a function of batches.

    A `tf.Module`, so that a model that holds one is exported with its vocabulary.
    """

    def __init__(self, transform_graph_dir: str):
        """Loads the graph from the folder that tf.Transform wrote."""
        super().__init__()
        self._loaded = tf.saved_model.load(os.path.join(transform_graph_dir, _SAVED_MODEL_DIR))

    def __call__(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Transforms a batch.

        Args:
          images: uint8 [batch, height, width, channels].
          labels: string [batch], class names.

        Returns:
          float32 [batch, height, width, channels], normalised, and int64 [batch], each label's line
          in the vocabulary or -1.
        """
        outputs = self._loaded.transform_fn(
            {contract.IMAGE_INPUT: images, contract.LABEL_INPUT: labels}
        )
        return outputs[contract.IMAGE_OUTPUT], outputs[contract.LABEL_OUTPUT]

    def transform_images(self, images: tf.Tensor) -> tf.Tensor:
        """Transforms images whose labels are not known, as when serving."""
        return self(images, tf.fill([tf.shape(images)[0]], ""))[0]
