"""Predictions for any number of images, as a file of JSON lines."""

from image_pipeline.components import files
from image_pipeline.components.inference.exported import ExportedModel
from image_pipeline.components.inference.masks import MaskFolder
from image_pipeline.components.inference.options import InferenceOptions
from image_pipeline.components.inference.predict import predict
from image_pipeline.components.json_text import to_json
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.tasks.signatures import MASK_BYTES

PREDICTIONS, MASKS = "predictions.jsonl", "masks"


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
    model = ExportedModel(model_dir)
    with_masks = MASK_BYTES in model.outputs
    masks = MaskFolder(files.join(output_dir, MASKS) if with_masks else None, model.outputs)
    counts = {"answered": 0, "failed": 0, "skipped": 0}
    with files.write_atomically(files.join(output_dir, PREDICTIONS)) as file:
        for found in predict(model, [options.images], ingest, options.top, options.batch_size):
            file.write(f"{to_json(masks.take(found))}\n".encode())
            kind = "failed" if "error" in found else "skipped" if "skipped" in found else "answered"
            counts[kind] += 1
    return counts
