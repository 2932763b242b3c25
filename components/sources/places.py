"""Reads images that have no file of their own: see `source_kinds`."""

from image_pipeline.components.sources.source_kinds import check_unchanged, read_place

__all__ = ["check_unchanged", "read_place"]
