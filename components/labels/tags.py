"""Any number of names an image."""

from image_pipeline.components.dataset.record import LABEL_COLUMNS
from image_pipeline.components.labels.kind import LabelKind


class Tags(LabelKind):
    """Each record has a list of names."""

    name = "tags"
    another = "other tags"
    columns = (LABEL_COLUMNS["strings"],)


TAGS: LabelKind = Tags()
