"""Where predicted masks are written."""

import os
import re
from collections.abc import Collection

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.inference.predictions import Prediction
from image_pipeline.components.tasks.signatures import MASK_BYTES

_SCHEME = re.compile(r"^\w+:/*")


class MaskFolder:
    """A folder of PNGs, named by the images' files; or none."""

    def __init__(self, folder: str | None, outputs: Collection[str]):
        """Does not write yet.

        Args:
          folder: its path or URI; None if masks are not to be kept.
          outputs: names of the model's outputs.

        Raises:
          UserError: if there is a folder, but the model gives no masks.
        """
        if folder is not None and MASK_BYTES not in outputs:
            raise UserError(
                "--output is for masks, but the model gives none; leave it out, and send what is "
                "printed to a file."
            )
        self._folder = folder

    def take(self, prediction: Prediction) -> Prediction:
        """Writes a prediction's mask, and gives the prediction with its path as `mask` instead."""
        if MASK_BYTES not in prediction:
            return prediction
        row = {key: value for key, value in prediction.items() if key != MASK_BYTES}
        if self._folder is not None:
            path = files.join(self._folder, name_mask(prediction["file"]))
            files.write_file(path, prediction[MASK_BYTES])
            row["mask"] = path
        return row


def name_mask(file: str) -> str:
    """A name below a folder for the mask of a file: its own path and ".png", never above it."""
    parts = _SCHEME.sub("", file).replace(os.sep, "/").split("/")
    safe = ["_" if part == ".." else part for part in parts if part not in ("", ".")]
    return "/".join(safe) + ".png"
