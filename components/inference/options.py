"""Options for asking the pushed model about further images in the same run."""

import pydantic

from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.options import Options


class InferenceOptions(Options):
    """Images for which a run's own model predicts, once it has passed."""

    images: str | None = None
    """A folder, archive, table or other source of ingest's, as `--images`; or a URI. The
    prediction for each image becomes a line of `predictions.jsonl`. None: nothing is predicted, and
    the pipeline has no such step."""
    top: pydantic.PositiveInt = 5
    """How many of the likeliest classes, tags or objects are named."""
    batch_size: pydantic.PositiveInt = 32
    """Most images that are asked about at a time."""


def options_for_others(ingest: IngestOptions) -> IngestOptions:
    """How `images` are read: as those to train on, whose columns and patterns are not theirs."""
    return IngestOptions(prepare=ingest.prepare)
