"""The rows of a table file: see `sources.source_kinds`."""

from image_pipeline.components.sources.source_kinds import read_rows

__all__ = ["read_rows"]
