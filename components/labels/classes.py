"""One class an image, by its name; or none, where images are not labelled."""

from image_pipeline.components.labels.kind import LabelKind


class Classes(LabelKind):
    """Each record has the name of its class, "" if it has none."""

    name = "classes"
    is_one_class = True


CLASSES: LabelKind = Classes()
