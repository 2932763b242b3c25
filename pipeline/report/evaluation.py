"""How good the model is and where it is wrong, by the facts of its evaluation."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from image_pipeline.components.evaluation import facts
from image_pipeline.components.evaluation.facts import (
    MISLABELLED,
    ClassAnswers,
    Evaluation,
    read_evaluation,
    read_mislabelled,
)
from image_pipeline.components.evaluation.unusual import Outlier
from image_pipeline.components.evaluation.unusual import find_outliers as find_far_out
from image_pipeline.named_folder import Source
from image_pipeline.report.absent import Absent
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.pixels import ImageFigures, stack_tiny
from image_pipeline.show.evaluation import is_weak, rate, say_verdict

# That show nothing without an evaluation.
_SECTIONS = ("verdict", "evaluation", "mislabelled")
_MOST_WORST = 12
_MOST_MISLABELLED = 24
# With more classes nobody can read the matrix; the list of confusions remains.
_MOST_IN_MATRIX = 25
_MOST_OUTLIERS = 24


def describe_evaluation(source: Source, data: DataSet, absent: Absent) -> dict[str, Any]:
    """The facts, and what of them has pictures.

    Returns:
      `evaluation`, the facts; the sentences `said` and their `rating`; `matrix`, see `sort_matrix`;
      `worst`, records with their `row` of the index; `mislabelled`, the first labels in doubt, the
      same, and `judged_labels`; `outliers`, if they were looked for.
    """
    folder = absent.ask(lambda: source.find_artifact("evaluation"), *_SECTIONS)
    found = folder and absent.ask(lambda: read_evaluation(folder), *_SECTIONS)
    if not folder or not found:
        nothing = dict.fromkeys(("evaluation", "matrix", "judged_labels"))
        return {**nothing, "said": "", "rating": "", "worst": [], "mislabelled": []}
    if found.answers is None and found.classes:
        absent["worst"] = "Masks and boxes have no list of records: pixels and boxes are measured."

    def list_known(rows: Sequence[Any]) -> list[dict[str, Any]]:
        known = data.find_ids(each.record_id for each in rows)
        return [
            {"row": known[each.record_id], **each.model_dump()}
            for each in rows
            if each.record_id in known
        ]

    judged, doubts = found.mislabelled, []
    if judged and judged.suspected:
        read = absent.ask(lambda: read_mislabelled(folder), "mislabelled") or []
        doubts = list_known(read[:_MOST_MISLABELLED])
        if not doubts:
            absent.setdefault("mislabelled", f"{MISLABELLED} names none of these records.")
    outliers = None
    if (counts := found.outliers) is not None:
        outliers = absent.ask(lambda: list_outliers(folder, counts, data), "outliers")
    is_pushed = source.summary is not None and bool(source.summary["paths"].get("pushed_model"))
    return {
        "evaluation": found,
        "said": say_verdict(found, is_pushed),
        "rating": rate(found),
        "matrix": sort_matrix(found),
        "worst": [] if found.answers is None else list_known(found.answers.worst[:_MOST_WORST]),
        "mislabelled": [
            {**each, "pair": f"{each['label']}, rather {each['likelier']}"} for each in doubts
        ],
        "judged_labels": judged and {**judged.model_dump(), "is_weak": is_weak(judged)},
        **({"outliers": outliers} if outliers else {}),
    }


def sort_matrix(found: Evaluation) -> dict[str, Any] | None:
    """Classes by their `names`, and records by label and prediction, `rows`; None of many."""
    answers = found.answers
    if not isinstance(answers, ClassAnswers) or answers.matrix is None:
        return None
    if len(answers.names) > _MOST_IN_MATRIX:
        return None
    order = sorted(range(len(answers.names)), key=answers.names.__getitem__)
    rows = np.array(answers.matrix)[np.ix_(order, order)].tolist()
    return {"names": sorted(answers.names), "rows": rows}


@dataclasses.dataclass(frozen=True)
class Outliers:
    """The images that are unlike all others: as the model sees them, or by their colours.

    Attributes:
      by: by what images are compared: "model" or "colours".
      groups: the farthest of them by their labels, in the order of their names; each by its row of
        the index.
    """

    by: str
    judged: int
    found: int
    groups: list[tuple[str, list[Outlier]]]


def list_outliers(folder: str, counts: facts.Outliers, data: DataSet) -> Outliers:
    """What evaluation found, by what the model's last layer sees."""
    rows = facts.read_outliers(folder)[:_MOST_OUTLIERS]
    known = data.find_ids(each.record_id for each in rows)
    found = [Outlier(known[each.record_id], each.times) for each in rows if each.record_id in known]
    return Outliers("model", counts.judged, counts.found, _group(found, data))


def find_outliers(measured: Sequence[ImageFigures], data: DataSet) -> Outliers:
    """Compares the measured images by their colours, 8 × 8 of each, without any model."""
    rows = [each.row for each in measured]
    found = find_far_out(stack_tiny(measured)) if measured else []
    strange = [Outlier(rows[each.row], each.times) for each in found[:_MOST_OUTLIERS]]
    return Outliers("colours", len(rows), len(found), _group(strange, data))


def _group(found: Sequence[Outlier], data: DataSet) -> list[tuple[str, list[Outlier]]]:
    labels = sorted({data.say_label(each.row) for each in found})
    return [
        (label, [each for each in found if data.say_label(each.row) == label]) for label in labels
    ]
