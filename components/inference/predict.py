"""Any number of image files to predictions, a batch at a time, in their order."""

from collections.abc import Iterable, Iterator, Sequence

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.depth import LEVELS, DepthOptions
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.inference.exported import ExportedModel, Row
from image_pipeline.components.inference.named_images import NamedImage, no_files, read_images
from image_pipeline.components.inference.predictions import Prediction, describe_row
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.served.kinds import BY_PREDICT
from image_pipeline.components.sources.reading import SkippedFile
from image_pipeline.components.tasks.signatures import ERROR, VALID

# A batch ends at so many pixels or bytes: the model decodes up to ten of its files at a time.
_MOST_PIXELS = 2**25
_MOST_BYTES = 2**26


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

    Args:
      model: the model.
      images: what is named; see `named_images.read_images`.
      options: how ingest reads images.
      top: how many of the likeliest classes or tags are named.
      batch_size: most images that are asked about at a time.

    Yields:
      `file`, and what `predictions.describe_row` gives (and `converted: True` if the model could
      not decode the file itself); or `error` and `message`; or, of what is no image and was found
      in a folder, `skipped` and `message`.

    Raises:
      UserError: as `read_images` does, and if there was no file at all.
    """
    number, prepare = 0, _prepare_as(model, options.prepare)
    for batch in _make_batches(read_images(images, options), batch_size):
        asked = [each.data for each in batch if isinstance(each.data, bytes)]
        rows = iter(model.predict(asked) if asked else [])
        for each in batch:
            yield {"file": each.name, **_describe(each, rows, model, prepare, top)}
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


def _describe(
    image: NamedImage, rows: Iterator[Row], model: ExportedModel, prepare: PrepareOptions, top: int
) -> Prediction:
    if isinstance(image.data, SkippedFile):
        return {"skipped": image.data.kind, "message": image.data.message}
    if isinstance(image.data, BadImage):
        return {"error": image.data.reason, "message": image.data.message}
    row = next(rows)
    return describe_row(row, top) if row[VALID] else _try_converted(image, row, model, prepare, top)


def _try_converted(
    image: NamedImage, refused: Row, model: ExportedModel, prepare: PrepareOptions, top: int
) -> Prediction:
    """Another try for a file that the model refused, decoded here."""
    reason, _, message = refused[ERROR].decode().partition(": ")
    if message and BY_PREDICT not in message:  # Other values: not for want of a decoder.
        return {"error": reason, "message": message}
    try:
        assert isinstance(image.data, bytes)  # The model was asked about it.
        (row,) = model.predict([_convert(image.data, prepare)])
    except BadImage as error:
        return {"error": error.reason, "message": error.message}
    if row[VALID]:
        return {**describe_row(row, top), "converted": True}
    return {"error": reason, "message": "the model does not take images of this kind"}


def _prepare_as(model: ExportedModel, prepare: PrepareOptions) -> PrepareOptions:
    """How a file is decoded for a model: to the 8 bits and the sounds that it has learned from."""
    low, high = model.read_depth() or (0, LEVELS - 1)
    sound = model.read_sound() or prepare.sound
    plain = {
        "sound": sound,
        "resize": "none",
        "encoding": "png",
        "dtype": "uint8",
        "channels": None,
    }
    depth = DepthOptions(low=low, high=high)
    return prepare.model_copy(update={**plain, "depth": depth})


def _convert(data: bytes, prepare: PrepareOptions) -> bytes:
    """The image as ingest decodes it, as PNG.

    Raises:
      BadImage: if ingest could not decode it either; it says why in more words than a model.
    """
    return prepare_image(data, prepare).encoded
