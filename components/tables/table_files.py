"""Which files are the tables that are given as images: see `sources.source_kinds`."""

from image_pipeline.components.sources.file_names import SPLIT, name_tables
from image_pipeline.components.sources.source_kinds import kind_of, list_tables

__all__ = ["SPLIT", "folder_of", "list_tables", "name_kind", "name_tables"]


def folder_of(images: str) -> str:
    """The folder that tables are in, of all of a pattern."""
    return kind_of(images).folder(images)


def name_kind(images: str) -> str:
    """What tables are, in a few words."""
    return kind_of(images).name
