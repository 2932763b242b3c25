"""Any number of image files to predictions, in their order: as they are asked for, or as a file."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.options import LEVELS, DepthOptions
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.inference.exported import (
    ExportedModel,
    Prediction,
    Row,
    describe_row,
)
from image_pipeline.components.inference.named_images import NamedImage, no_files, read_images
from image_pipeline.components.inference.options import InferenceOptions
from image_pipeline.components.json_text import to_json
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.served.kinds import BY_PREDICT
from image_pipeline.components.sources.reading import SkippedFile
from image_pipeline.components.tasks.signatures import ERROR, MASK_BYTES, VALID

PREDICTIONS, MASKS = "predictions.jsonl", "masks"
# A batch ends at so many pixels or bytes: the model decodes up to ten of its files at a time.
_MOST_PIXELS = 2**25
_MOST_BYTES = 2**26
_SCHEME = re.compile(r"^\w+:/*")


def write_predictions(
    model_dir: str, output_dir: str, options: InferenceOptions, ingest: IngestOptions
) -> dict[str, int]:
    """Asks a model about all images of a source, and writes a line for each, in their order.

    Args:
      model_dir: the SavedModel's folder.
      output_dir: where `PREDICTIONS` goes; and masks, if the model gives any, below `MASKS`.
      options: which images.
      ingest: how they are read.

    Returns:
      How many were answered, failed and skipped.

    Raises:
      UserError: if there is no such source, or the model is not one of this project's.
    """
    assert options.images is not None  # or there would be no such step
    model, masks_dir = ExportedModel(model_dir), files.join(output_dir, MASKS)
    counts = {"answered": 0, "failed": 0, "skipped": 0}
    with files.write_atomically(files.join(output_dir, PREDICTIONS)) as file:
        for found in predict(model, [options.images], ingest, options.top, options.batch_size):
            file.write(f"{to_json(write_mask(found, masks_dir))}\n".encode())
            kind = "failed" if "error" in found else "skipped" if "skipped" in found else "answered"
            counts[kind] += 1
    return counts


def write_mask(prediction: Prediction, folder: str | None) -> Prediction:
    """A prediction with the path of its mask as `mask` instead of the mask itself, if it has one.

    Args:
      prediction: its mask is written.
      folder: below which, at the path of the image's file; None for nowhere.
    """
    if MASK_BYTES not in prediction:
        return prediction
    shown = {key: value for key, value in prediction.items() if key != MASK_BYTES}
    if folder is not None:
        shown["mask"] = files.join(folder, name_mask(prediction["file"]))
        files.write_file(shown["mask"], prediction[MASK_BYTES])
    return shown


def name_mask(file: str) -> str:
    """A name below a folder for the mask of a file: its own path and ".png", never above it."""
    parts = _SCHEME.sub("", file).replace(os.sep, "/").split("/")
    safe = ["_" if part == ".." else part for part in parts if part not in ("", ".")]
    return "/".join(safe) + ".png"


def predict(
    model: ExportedModel,
    images: Sequence[str],
    options: IngestOptions,
    top: int = 5,
    batch_size: int = 32,
) -> Iterator[Prediction]:
    """Asks a model about images.

    A file that the model cannot decode, but ingest could (a TIFF, a GIF, a sound at another rate),
    is decoded here and handed on as PNG.

    Yields:
      `file`, and what `describe_row` gives (and `converted: True` if the model could
      not decode the file itself); or `error` and `message`; or, of a file in a folder that is not
      an image, `skipped` and `message`.

    Raises:
      UserError: as `read_images` does, and if there was no file at all.
    """
    # A file that is decoded here gets the 8 bits and the sounds that the model has learned from.
    low, high = model.read_depth() or (0, LEVELS - 1)
    decoded = {"resize": "none", "encoding": "png", "dtype": "uint8", "channels": None}
    learned = {
        "depth": DepthOptions(low=low, high=high),
        "sound": model.read_sound() or options.prepare.sound,
    }
    prepare = options.prepare.model_copy(update=decoded | learned)
    number = 0
    for batch in _make_batches(read_images(images, options), batch_size):
        asked = [each.data for each in batch if isinstance(each.data, bytes)]
        rows = iter(model.predict(asked) if asked else [])
        for each in batch:
            found: Prediction
            if isinstance(each.data, SkippedFile):
                found = {"skipped": each.data.kind, "message": each.data.message}
            elif isinstance(each.data, BadImage):
                found = {"error": each.data.reason, "message": each.data.message}
            elif (row := next(rows))[VALID]:
                found = describe_row(row, top)
            else:
                found = _try_converted(each.data, row, model, prepare, top)
            yield {"file": each.name, **found}
        number += len(batch)
    if not number:
        raise no_files(*images)


def _make_batches(images: Iterable[NamedImage], most: int) -> Iterator[list[NamedImage]]:
    """Groups images so that a batch, decoded, fits in memory; an image that is larger is alone."""
    batch: list[NamedImage] = []
    pixels = size = 0
    for image in images:
        length = len(image.data) if isinstance(image.data, bytes) else 0
        is_full = len(batch) == most or pixels + image.pixels > _MOST_PIXELS
        if batch and (is_full or size + length > _MOST_BYTES):
            yield batch
            batch, pixels, size = [], 0, 0
        batch.append(image)
        pixels, size = pixels + image.pixels, size + length
    if batch:
        yield batch


def _try_converted(
    data: bytes, refused: Row, model: ExportedModel, prepare: PrepareOptions, top: int
) -> Prediction:
    """Another try for a file that the model refused, as the PNG that ingest makes of it."""
    reason, _, message = refused[ERROR].decode().partition(": ")
    if message and BY_PREDICT not in message:  # Other values: not for want of a decoder.
        return {"error": reason, "message": message}
    try:
        (row,) = model.predict([prepare_image(data, prepare).encoded])
    except BadImage as error:  # Ingest says why in more words than a model.
        return {"error": error.reason, "message": error.message}
    if row[VALID]:
        return {**describe_row(row, top), "converted": True}
    return {"error": reason, "message": "the model does not take images of this kind"}
