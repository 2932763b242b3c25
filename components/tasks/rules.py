"""What training and evaluation cannot do with labels of some kind, or a model with such pixels.

Known are the `labels`, a `LabelKind`; the `columns` that a table added to the records; and the
options of `feeding`, `transform`, `training` and `evaluation`.
"""

from collections.abc import Iterable
from typing import Any

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.rules import LABELS
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.models.names import WANTED_PIXELS, refuse_model
from image_pipeline.components.rules import Rule
from image_pipeline.components.transform.options import OWN


def _refuse_model(labels: LabelKind, training: Any) -> str | None:
    # Tags and values want what classes do: one answer an image.
    head: Any = labels.name if labels.moves else "classes"
    return refuse_model(training.model, head)


def _find_wanted(labels: LabelKind, training: Any, transform: Any) -> tuple[str, str] | None:
    """What a model wants of `preprocessing_fn`, and has not: this package's own one is another.

    What a user's own function makes is seen when it has become a graph.
    """
    wanted, given = WANTED_PIXELS.get(training.model or ""), transform.preprocessing_fn
    if wanted is None or given not in OWN.values() or given == OWN[wanted]:
        return None
    if _refuse_model(labels, training):
        return None  # Another model is to be taken anyway.
    return wanted, given.rpartition(".")[2]


TRAINING = (
    *LABELS,
    Rule(
        lambda labels, training: training.class_weights != "none" and labels.unweighted,
        "training.class_weights={training.class_weights} weighs {found}",
    ),
    Rule(
        lambda labels, training: training.label_smoothing and labels.unsmoothed,
        "training.label_smoothing={training.label_smoothing:g} spreads the classes or tags of "
        "images, but {found}; leave it at 0, or smooth in the loss of a training.model of your "
        "own.",
    ),
    Rule(
        lambda labels, feeding, training: (
            labels.is_one_class and feeding.mixes_labels and training.class_weights != "none"
        ),
        "training.class_weights weigh records of one class, but mixup and cutmix give each record "
        "two; leave out one of them, or set feeding.balance.",
    ),
    Rule(_refuse_model),
    Rule(
        _find_wanted,
        "training.model={training.model} wants the pixels of transform.preprocessing_fn="
        "{found[0]}, but it is {found[1]}; set transform.preprocessing_fn={found[0]}, or take "
        "another model.",
    ),
)


def find_types(columns: Iterable[record.Column]) -> dict[str, record.Dtype]:
    """The types of the columns by which metrics can be sliced: those of one value."""
    known = (*record.METADATA_COLUMNS, *columns)
    return {column.key: column.dtype for column in known if not column.is_list}


SLICES = (
    Rule(
        lambda labels, evaluation: evaluation.slices and labels.moves,
        "evaluation.slices works for classification, tagging, regression, but the labels of this "
        "run are {labels.name}, which have no metrics for each record. Remove it.",
    ),
    Rule(
        lambda columns, evaluation: (
            (unknown := [n for n in evaluation.slices if n not in find_types(columns)])
            and (unknown[0], ", ".join(find_types(columns)))
        ),
        "evaluation.slices names {found[0]!r}, not a column of one value; known: {found[1]}.",
    ),
)
