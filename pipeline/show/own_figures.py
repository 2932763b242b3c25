"""The figures that evaluation made of each record's answer, with those that TFMA measured."""

from collections.abc import Mapping
from typing import Any

import pydantic

from image_pipeline.components import files
from image_pipeline.components.csv_text import read_csv
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.answers import FIGURES, MISLABELLED, OUTLIERS
from image_pipeline.components.evaluation.forms import Interval, check_figures
from image_pipeline.components.json_files import read_json

_WAY_OUT = "run again from the Evaluator on"
_TOLD = ("constant", "compared", "slices", "mislabelled")
# Figures for which counts make the interval; all others are drawn.
_WILSONS = {"accuracy"}


def read_figures(evaluation_dir: str) -> dict[str, Any] | None:
    """What evaluation made of the answers; None of masks, boxes, and of runs of earlier versions.

    Returns:
      As `components.evaluation.figures.describe_model` describes it, as JSON.

    Raises:
      UserError: if it is damaged.
    """
    path = files.join(evaluation_dir, FIGURES)
    try:
        found = read_json(path, dict[str, Any], _WAY_OUT)
        check_figures(found)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path!r} is damaged ({error}); {_WAY_OUT}.") from error
    return found


def read_mislabelled(evaluation_dir: str) -> list[dict[str, Any]]:
    """The records whose label is in doubt, the likeliest to be wrong first; none if not looked for.

    Returns:
      For each, the texts of its row: `components.evaluation.findings.COLUMNS`, by their names.
    """
    return _read_rows(files.join(evaluation_dir, MISLABELLED), _Doubted)


def read_outliers(evaluation_dir: str) -> list[dict[str, Any]]:
    """The records that are unlike all others, the farthest first; none if not looked for.

    Returns:
      For each, the texts of its row: `components.evaluation.findings.OUTLIER_COLUMNS`.
    """
    return _read_rows(files.join(evaluation_dir, OUTLIERS), _Outlier)


class _Row(pydantic.BaseModel, extra="allow"):
    filename: str
    split: str
    label: str
    record_id: str = pydantic.Field(pattern=r"\A[0-9a-f]{32}\z")


class _Doubted(_Row):
    likelier: str
    score: str
    likelier_score: str


class _Outlier(_Row):
    times: float


def _read_rows(path: str, kind: type[_Row]) -> list[dict[str, Any]]:
    try:
        rows = read_csv(path, kind, _WAY_OUT)
    except FileNotFoundError:
        return []
    return [row.model_dump() for row in rows]


def add_figures(evaluation: dict[str, Any], evaluation_dir: str) -> dict[str, Any]:
    """Adds to what TFMA measured the intervals and figures that it has not.

    Args:
      evaluation: as `read_evaluation` makes it of TFMA's files.
      evaluation_dir: the Evaluator's output.

    Returns:
      The same with `score`, the one figure that models are judged by; with more figures in
      `overall`; `intervals`, of figures for which TFMA estimated none, too; `class_figures`,
      precision, recall and F1 of each class; and `constant`, `compared`, `slices` and
      `mislabelled`, where there are such.
    """
    measure = evaluation.get("measure", "accuracy")
    own = read_figures(evaluation_dir) or {"overall": {}, "classes": []}
    gained = (own.get("compared") or {}).get("gained")
    if gained and "accuracy gained" in evaluation["overall"]:
        own["overall"]["accuracy gained"] = gained
    found = {name: each for name, each in own["overall"].items() if each["value"] is not None}
    values = {name: each["value"] for name, each in found.items()}
    overall = values | evaluation["overall"]
    told = {name: own[name] for name in _TOLD if own.get(name)}
    if "mislabelled" in told:
        told["mislabelled"] |= {"path": files.join(evaluation_dir, MISLABELLED)}
    return {
        **evaluation,
        **{"measure": measure, "score": overall.get(measure)},
        "overall": {name: overall[name] for name in _order(evaluation["overall"], values)},
        "intervals": _join(
            evaluation["intervals"], _take_intervals(found, own["classes"], measure)
        ),
        **({"class_figures": own["classes"]} if own["classes"] else {}),
        **told,
    }


def _order(measured: Mapping[str, Any], further: Mapping[str, Any]) -> list[str]:
    """TFMA's figures first, and the number of records last."""
    names = [*measured, *(name for name in further if name not in measured)]
    return sorted(names, key=lambda name: name == "records")


def _take_intervals(
    overall: Mapping[str, Any], classes: list[dict[str, Any]], measure: str
) -> dict[str, Any] | None:
    """Each figure's interval; a class's is that of its recall, which is its accuracy, or its F1."""
    if not overall:
        return None
    each = "recall" if measure == "accuracy" else measure
    of_classes = {row["name"]: _ends(row[each]) for row in classes}
    return {
        "method": "Wilson" if measure in _WILSONS else "bootstrap",
        "overall": {name: ends for name, figure in overall.items() if (ends := _ends(figure))},
        "classes": {name: ends for name, ends in of_classes.items() if ends},
    }


def _join(measured: dict[str, Any] | None, own: dict[str, Any] | None) -> dict[str, Any] | None:
    """TFMA's intervals, if it estimated any, with those that it has not."""
    if measured is None or own is None:
        return measured or own
    return measured | {part: own[part] | measured[part] for part in ("overall", "classes")}


def _ends(figure: Mapping[str, Any]) -> Interval | None:
    return None if figure["low"] is None else (figure["low"], figure["high"])
