"""What evaluation cannot do: by which columns metrics cannot be sliced.

Known are the `labels`, a `LabelKind`; the `columns` that a table added to the records; and the
options of `evaluation`.
"""

from collections.abc import Iterable

from image_pipeline.components.dataset import record
from image_pipeline.components.rules import Rule


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
        "evaluation.slices names {found[0]!r}, which is no column of one value; known: {found[1]}.",
    ),
)
