"""What kind of source is given as images: see `sources.source_kinds`."""

from image_pipeline.components.generators.generator import GENERATOR, open_generator
from image_pipeline.components.sources.folder import FOLDER
from image_pipeline.components.sources.source_kinds import SourceKind as Kind
from image_pipeline.components.sources.source_kinds import kind_of

__all__ = ["FOLDER", "GENERATOR", "Kind", "kind_of", "open_generator"]
