"""An exported model, loaded: image files in, rows of predictions out."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.messages import describe_error
from image_pipeline.components.tasks.signatures import (
    CLASSES,
    ERROR,
    IMAGE_BYTES,
    MODEL_FILE,
    PIXELS,
    SERVE_IMAGES,
    SERVE_PIXELS,
    VALID,
)
from image_pipeline.components.trees import fetch_tree

Row = dict[str, Any]
"""The outputs of SERVE_IMAGES for one file: a NumPy array or scalar for each output."""


class ExportedModel:
    """A SavedModel of this project's, and what can be asked of it."""

    def __init__(self, folder: str):
        """Loads it.

        Args:
          folder: that of the SavedModel itself, or its URI.

        Raises:
          UserError: if it is not a model, or was not exported by this project.
        """
        self.folder = folder
        # Kept whole: a signature does not hold on to the variables that it reads.
        self.loaded = _load(folder)
        self._serve = self.loaded.signatures.get(SERVE_IMAGES)
        if self._serve is None or not _is_ours(self._serve):
            raise UserError(
                f"{folder!r} is a SavedModel, but its signature {SERVE_IMAGES!r} does not take "
                f"{IMAGE_BYTES!r} and return {VALID!r} and {ERROR!r}: only models that this "
                "project exported or pushed can be asked; instead of Keras's own model.export, "
                "write it by image_pipeline.export_model(model, graph, folder)."
            )
        self.outputs = frozenset(self._serve.structured_outputs)

    def predict(self, image_files: Sequence[bytes]) -> list[Row]:
        """Predicts a batch of image files, in their order."""
        try:
            outputs = self._serve(**{IMAGE_BYTES: tf.constant(list(image_files), tf.string)})
            arrays = {name: output.numpy() for name, output in outputs.items()}
        except tf.errors.OpError as error:  # Of a file, a row says what is wrong.
            raise _damaged(self.folder, error) from error
        return [
            {name: array[row] for name, array in arrays.items()} for row in range(len(image_files))
        ]

    @property
    def views_spec(self) -> tf.TensorSpec:
        """The model's input: type, and shape [None, height, width, channels].

        Raises:
          UserError: if an earlier version exported the model.
        """
        if SERVE_PIXELS not in self.loaded.signatures:
            raise UserError(
                f"{self.folder!r} has no signature {SERVE_PIXELS!r}, since an earlier version "
                "exported it; train and export it again."
            )
        return self.loaded.signatures[SERVE_PIXELS].structured_input_signature[1][PIXELS]

    def read_depth(self) -> tuple[int, int] | None:
        """The values of 16 bits that become 0 and 255; None for 0 and 65,535."""
        if not hasattr(self.loaded, "depth"):
            return None
        low, high = self.loaded.depth().numpy().tolist()
        return low, high

    def read_sound(self) -> SoundOptions | None:
        """How sounds were drawn that it has learned from; None if it has not."""
        if not hasattr(self.loaded, "sound"):
            return None
        return SoundOptions.model_validate_json(self.loaded.sound().numpy())

    def read_class_names(self) -> list[str]:
        """The names of classes or tags in the order of ids; none if values are predicted."""
        if CLASSES not in self.outputs:
            return []
        (row,) = self.predict([b""])
        return [name.decode() for name in row[CLASSES]]


def _load(folder: str) -> Any:
    if not files.is_file(files.join(folder, MODEL_FILE)):
        raise UserError(f"{folder!r} holds no SavedModel ({MODEL_FILE}); give a model's folder.")
    local = fetch_tree(folder)
    try:
        return tf.saved_model.load(local)
    except Exception as error:  # Of a damaged file, TensorFlow raises many kinds.
        raise _damaged(folder, error) from error


def _damaged(folder: str, error: Exception) -> UserError:
    return explain_shortage(error) or UserError(
        f"the model in {folder!r} cannot be used: {describe_error(error)}; is it whole? Push or "
        "copy it again."
    )


def _is_ours(signature: Any) -> bool:
    takes = set(signature.structured_input_signature[1])
    return takes == {IMAGE_BYTES} and {VALID, ERROR} <= set(signature.structured_outputs)
