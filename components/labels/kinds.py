"""Which kind of labels a data set has."""

from collections.abc import Collection

from image_pipeline.components.dataset.record import Column
from image_pipeline.components.labels.boxes import BOXES
from image_pipeline.components.labels.classes import CLASSES
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.masks import MASKS
from image_pipeline.components.labels.tags import TAGS
from image_pipeline.components.labels.values import VALUES

KINDS: tuple[LabelKind, ...] = (MASKS, BOXES, TAGS, VALUES, CLASSES)
"""All kinds: of several that a record has, the first is what a model learns."""


def find_kind(columns: Collection[Column]) -> LabelKind:
    """The kind of labels of records that have these columns."""
    return next(kind for kind in KINDS if set(kind.columns) <= set(columns))
