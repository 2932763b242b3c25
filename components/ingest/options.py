"""The options of ingest, by the name that users import them by."""

from image_pipeline.components.meaning.options import IngestOptions

__all__ = ["IngestOptions"]
