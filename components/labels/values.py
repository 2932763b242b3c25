"""A number an image."""

from image_pipeline.components.dataset.record import LABEL_COLUMNS
from image_pipeline.components.labels.kind import LabelKind


class Values(LabelKind):
    """Each record has a number."""

    name = "values"
    another = "another value"
    columns = (LABEL_COLUMNS["float"],)
    unweighted = "records by their class, but the labels are numbers; leave it at none."
    unsmoothed = "the labels are numbers"


VALUES: LabelKind = Values()
