"""Classes, tags and values, and which kind of labels a data set has."""

from collections.abc import Collection

from image_pipeline.components.dataset.record import LABEL_COLUMNS, Column
from image_pipeline.components.labels.boxes import BOXES
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.masks import MASKS


class Values(LabelKind):
    """Each record has a number."""

    name = "values"
    another = "another value"
    columns = (LABEL_COLUMNS["float"],)
    unweighted = "records by their class, but the labels are numbers; leave it at none."
    unsmoothed = "the labels are numbers"


VALUES: LabelKind = Values()


class Tags(LabelKind):
    """Each record has a list of names."""

    name = "tags"
    another = "other tags"
    columns = (LABEL_COLUMNS["strings"],)


TAGS: LabelKind = Tags()


class Classes(LabelKind):
    """Each record has the name of its class, "" if it has none."""

    name = "classes"
    is_one_class = True


CLASSES: LabelKind = Classes()


KINDS: tuple[LabelKind, ...] = (MASKS, BOXES, TAGS, VALUES, CLASSES)
"""All kinds: of several that a record has, the first is what a model learns."""


def find_kind(columns: Collection[Column]) -> LabelKind:
    """The kind of labels of records that have these columns."""
    return next(kind for kind in KINDS if set(kind.columns) <= set(columns))
