"""An exported model, loaded: image files in, rows of predictions out, and what these mean.

A prediction is a dict that JSON can hold, but for a mask's PNG, whose key is `MASK_BYTES`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.messages import describe_error
from image_pipeline.components.tasks.signatures import (
    BOXES,
    CLASSES,
    CONFIDENCE,
    COUNT,
    ERROR,
    IMAGE_BYTES,
    LABEL,
    LABELS,
    MASK,
    MASK_BYTES,
    MODEL_FILE,
    PIXELS,
    PROBABILITIES,
    SCORES,
    SERVE_IMAGES,
    SERVE_PIXELS,
    TAGS,
    VALID,
    VALUE,
)
from image_pipeline.components.trees import fetch_tree

Row = dict[str, Any]
"""The outputs of SERVE_IMAGES for one file: a NumPy array or scalar for each output."""
Prediction = dict[str, Any]
"""What that means to a person."""


class ExportedModel:
    """A SavedModel of this project's, and what can be asked of it."""

    def __init__(self, folder: str):
        """Loads it.

        Raises:
          UserError: if it is not a model, or was not exported by this project.
        """
        self.folder = folder
        if not files.is_file(files.join(folder, MODEL_FILE)):
            raise UserError(
                f"{folder!r} holds no SavedModel ({MODEL_FILE}); give a model's folder."
            )
        local = fetch_tree(folder)
        try:
            # Kept whole: a signature does not hold on to the variables that it reads.
            self.loaded = tf.saved_model.load(local)
        except Exception as error:  # Of a damaged file, TensorFlow raises many kinds.
            raise _damaged(folder, error) from error
        self._serve = self.loaded.signatures.get(SERVE_IMAGES)
        if (
            self._serve is None
            or set(self._serve.structured_input_signature[1]) != {IMAGE_BYTES}
            or not {VALID, ERROR} <= set(self._serve.structured_outputs)
        ):
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


def _damaged(folder: str, error: Exception) -> UserError:
    return explain_shortage(error) or UserError(
        f"the model in {folder!r} cannot be used: {describe_error(error)}; is it whole? Push or "
        "copy it again."
    )


def describe_row(row: Row, top: int) -> Prediction:
    """The prediction of a valid row; numbers are the model's float32, exactly.

    Args:
      row: the outputs of the signature for image files for one file.
      top: how many of the likeliest classes, tags or objects are named at most.

    Returns:
      For classes `label`, `probability`, `top`; for tags `tags`, `top`; for values `value`; for
      masks `classes` (the share of pixels of each that occurs), `confidence` and the PNG; for boxes
      `objects`, likeliest first, and `count`, of which those are the first.
    """
    if VALUE in row:
        return {"value": float(row[VALUE])}
    names = [name.decode() for name in row[CLASSES]]
    if MASK in row:
        ids, pixels = np.unique(row[MASK][row[MASK] != record.IGNORED], return_counts=True)
        order = sorted(zip(ids, pixels, strict=True), key=lambda pair: (-pair[1], pair[0]))
        return {
            "classes": {names[id_]: float(count / row[MASK].size) for id_, count in order},
            "confidence": float(row[CONFIDENCE]),
            MASK_BYTES: bytes(row[MASK_BYTES]),
        }
    if BOXES in row:
        objects = [
            {
                "label": row[LABELS][number].decode(),
                "score": float(row[SCORES][number]),
                "box": [float(side) for side in row[BOXES][number]],
            }
            for number in range(min(int(row[COUNT]), top))
        ]
        return {"count": int(row[COUNT]), "objects": objects}
    probabilities = row[PROBABILITIES]
    # Of equally likely ones the first in the vocabulary comes first, as argmax has it.
    ranked = np.argsort(-probabilities, kind="stable")[:top]
    likeliest = [{"label": names[id_], "probability": float(probabilities[id_])} for id_ in ranked]
    if TAGS in row:
        return {"tags": [name.decode() for name in row[TAGS] if name], "top": likeliest}
    label = row[LABEL].decode()
    probability = float(probabilities[names.index(label)])
    return {"label": label, "probability": probability, "top": likeliest}
