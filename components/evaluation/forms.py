"""Forms of the figures that an evaluation wrote, which what is damaged does not fit."""

from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

from image_pipeline.components.json_files import check_json

Interval = tuple[float, float]
_Id = Annotated[str, pydantic.Field(pattern=r"\A[0-9a-f]{32}\z")]
_Count = pydantic.NonNegativeInt
# Lists: JSON has no tuples.
_Confusion = Annotated[list[_Count], pydantic.Field(min_length=3, max_length=3)]
_Ends = Annotated[list[float], pydantic.Field(min_length=2, max_length=2)]


class _Form(pydantic.BaseModel, extra="allow", strict=True):
    """Of an object, what is relied on; what else it has is kept as it is."""


class _Estimate(_Form):
    value: float | None
    low: float | None
    high: float | None

    @pydantic.model_validator(mode="after")
    def _check_ends(self) -> "_Estimate":
        if (self.low is None) != (self.high is None) or (self.value is None and self.low):
            raise ValueError("an interval has two ends, and a value between them")
        return self


class _Constant(_Form):
    answer: str
    value: float


class _OfClass(_Form):
    name: str
    records: _Count
    precision: _Estimate
    recall: _Estimate
    F1: _Estimate


class _Compared(_Form):
    gained: _Estimate
    only_new: _Count
    only_earlier: _Count
    p_value: float


class _Doubted(_Form):
    judged: _Count
    agreed: float
    of: _Count
    suspected: _Count


class _Outliers(_Form):
    judged: _Count
    of: _Count
    found: _Count


class _Slice(_Form):
    value: str
    records: _Count


class _Told(_Form):
    constant: _Constant | None = None
    compared: _Compared | None = None
    mislabelled: _Doubted | None = None
    slices: dict[str, list[_Slice]] = {}

    @pydantic.model_validator(mode="after")
    def _check_slices(self) -> "_Told":
        for row in (row for rows in self.slices.values() for row in rows):
            figures = row.model_extra or {}
            estimates = [each for each in figures.values() if isinstance(each, Mapping)]
            if len(estimates) != 1 or not isinstance(figures.get("constant", 0), int | float):
                raise ValueError(f"the slice {row.value!r} has no figure")
            _Estimate.model_validate(estimates[0])
        return self


class _Figures(_Told):
    task: str
    records: _Count
    overall: dict[str, _Estimate]
    classes: list[_OfClass]
    outliers: _Outliers | None = None


class _Bin(_Form):
    records: _Count
    probability: float
    accuracy: float
    low: float
    high: float


class _Miss(_Form):
    record_id: _Id
    label: str
    prediction: str
    probability: float
    label_probability: float
    loss: float | None  # None for one without bounds.


class _ClassFigures(_Figures):
    names: list[str]
    matrix: list[list[_Count]] | None
    confusions: list[_Confusion]
    calibration: list[_Bin]
    worst: list[_Miss]

    @pydantic.model_validator(mode="after")
    def _check_ids(self) -> "_ClassFigures":
        count = len(self.names)
        if any(max(true, answered) >= count for true, answered, _ in self.confusions):
            raise ValueError("a confusion is of a class that has no name")
        if self.matrix is not None and [len(row) for row in self.matrix] != [count] * count:
            raise ValueError(f"its matrix is not one of {count} classes")
        return self


class _Intervals(_Form):
    overall: dict[str, _Ends]
    classes: dict[str, _Ends]


class _Worst(_Form):
    name: str = pydantic.Field(alias="class")


class _Bound(_Form):
    option: str
    threshold: float


class Evaluation(_Told):
    """What a run's summary has of an evaluation."""

    measure: str = "accuracy"
    overall: dict[str, float]
    classes: dict[str, float]
    intervals: _Intervals | None = None
    class_figures: list[_OfClass] = []
    worst_class: _Worst | None = None
    bound: _Bound | None = None


def check_figures(content: Mapping[str, Any]) -> None:
    """Compares what `figures.describe_model` makes with its form.

    Raises:
      ValueError: if it does not fit.
    """
    is_of_classes = content.get("task") == "classification" and content.get("records")
    check_json(content, _ClassFigures if is_of_classes else _Figures)
