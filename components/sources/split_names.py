"""What people call the splits of a data set: see `file_names`."""

from image_pipeline.components.sources.file_names import SPLIT_NAMES, find_split

__all__ = ["SPLIT_NAMES", "find_split"]
