"""How good the model is and where it is wrong, by the facts of its evaluation."""

from typing import Any

import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import (
    ClassAnswers,
    Evaluation,
    read_evaluation,
    read_mislabelled,
)
from image_pipeline.named_folder import Source
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.outliers import list_outliers
from image_pipeline.show.evaluation import is_weak, rate, say_verdict

NOT_A_RUN = "Only the report of a run has this; this is the report of a data set alone."
NOT_ENDED = "The run has no summary.json: it did not finish, or not with its last component."
_MOST_WORST = 12
_MOST_MISLABELLED = 24
# With more classes nobody can read the matrix; the list of confusions remains.
_MOST_IN_MATRIX = 25


def find_evaluation(source: Source, absent: dict[str, str]) -> Evaluation | None:
    """The facts of a run's model; None with why in `absent`, for each section that shows them."""
    folder, reason = source.artifact("evaluation"), NOT_A_RUN if source.run is None else NOT_ENDED
    if source.summary is not None:
        reason = "The run has no evaluation; run again from the Evaluator on."
    try:
        if folder is not None:
            return read_evaluation(folder)
    except UserError as error:
        reason = str(error)
    absent |= dict.fromkeys(("verdict", "evaluation", "mislabelled"), reason)
    return None


def describe_evaluation(
    found: Evaluation | None, source: Source, data: DataSet, absent: dict[str, str]
) -> dict[str, Any]:
    """The facts, and what of them has pictures.

    Args:
      found: as `find_evaluation` has it.
      source: the run.
      data: its data set, in which records are looked up.
      absent: gets why something is missing.

    Returns:
      `evaluation`, the facts; the sentences `said` and their `rating`; `matrix`, see `sort_matrix`;
      `worst`, records with their `row` of the index; `mislabelled`, the first labels in doubt, the
      same, and `judged_labels`; `outliers`, if they were looked for.
    """
    folder = source.artifact("evaluation")
    if found is None or folder is None or source.summary is None:
        nothing = dict.fromkeys(("evaluation", "matrix", "judged_labels"))
        return {**nothing, "said": "", "rating": "", "worst": [], "mislabelled": []}
    if found.answers is None and found.classes:
        absent["worst"] = "Masks and boxes have no list of records: pixels and boxes are measured."
    worst = [] if found.answers is None else found.answers.worst[:_MOST_WORST]
    doubts = read_mislabelled(folder)[:_MOST_MISLABELLED] if found.mislabelled else []
    rows = data.find_ids(each.record_id for each in [*worst, *doubts])
    judged = found.mislabelled
    return {
        "evaluation": found,
        "said": say_verdict(found, source.summary["paths"].get("pushed_model") is not None),
        "rating": rate(found),
        "matrix": sort_matrix(found),
        "worst": [
            {"row": rows[each.record_id], **each.model_dump()}
            for each in worst
            if each.record_id in rows
        ],
        "mislabelled": [
            {
                "row": rows[each.record_id],
                **each.model_dump(),
                "pair": f"{each.label}, rather {each.likelier}",
            }
            for each in doubts
            if each.record_id in rows
        ],
        "judged_labels": judged and {**judged.model_dump(), "is_weak": is_weak(judged)},
        **({"outliers": list_outliers(folder, found.outliers, data)} if found.outliers else {}),
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
