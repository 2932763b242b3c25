"""What is searched for, and which rows that is: conditions on columns, a table at a time."""

from collections.abc import Collection
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pydantic

from image_pipeline.browse.labels import Labels

# As the index holds it.
Side = Annotated[int, pydantic.Field(ge=0, lt=2**31)]
Order = Literal["stored", "path", "smallest", "largest", "bytes"]
State = Literal["", "stored", "quarantined", "duplicate", "skipped"]
ORDERS, STATES = get_args(Order), get_args(State)
SEARCHED = ("source", "split", "notes", "source_height", "source_width", "source_bytes")
"""Columns that every search needs, beside that of the labels."""


class Query(pydantic.BaseModel):
    """A search; what is empty finds all.

    Attributes:
      path: a part of the path, in capital or small letters.
      label: a class, or one of a record's tags.
      split: of records.
      state: whether it is stored, and else why not.
      reason: why a file was rejected, or what was noted when an image was prepared.
      least_px: the shorter side of the source is at least so many pixels.
      most_px: its longer side is at most so many.
      marked: only what is marked.
      order: by shard and place, by path, by number of pixels, or the greatest files first.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    path: str = ""
    label: str = ""
    split: str = ""
    state: State = ""
    reason: str = ""
    least_px: Side | None = None
    most_px: Side | None = None
    marked: bool = False
    order: Order = "stored"

    @property
    def finds_all(self) -> bool:
        """Whether no condition is set."""
        return self == Query(order=self.order)


def match(table: pa.Table, labels: Labels, query: Query, marks: Collection[str]) -> np.ndarray:
    """Finds the rows of a table that a search asks for.

    Args:
      table: `SEARCHED` and the column of the labels; `state`, where there are several.
      labels: which one that is.
      query: the search; its `order` is not looked at.
      marks: the marked paths.

    Returns:
      int64 [rows found], ascending.
    """
    conditions = []
    if query.path:
        conditions.append(pc.match_substring(table["source"], query.path, ignore_case=True))
    if query.label:
        conditions.append(_has(table[labels.column], labels.find(query.label)))
    if query.split:
        conditions.append(pc.equal(table["split"], query.split))
    if query.state and "state" in table.column_names:
        conditions.append(pc.equal(table["state"], query.state))
    if query.reason:
        conditions.append(_has(table["notes"], query.reason))
    sides = table["source_height"], table["source_width"]
    if query.least_px is not None:
        shorter = pc.min_element_wise(*sides, skip_nulls=False)
        conditions.append(pc.greater_equal(shorter, query.least_px))
    if query.most_px is not None:
        longer = pc.max_element_wise(*sides, skip_nulls=False)
        conditions.append(pc.less_equal(longer, query.most_px))
    if query.marked:
        conditions.append(pc.is_in(table["source"], value_set=pa.array(list(marks), pa.string())))
    found = np.ones(table.num_rows, bool)
    for each in conditions:
        found &= np.asarray(pc.fill_null(each, False))
    return np.flatnonzero(found)


def sort_keys(table: pa.Table, order: Order) -> Any:
    """What rows are sorted by, ascending: texts, or numbers of which the unknown come last."""
    if order == "path":
        return table["source"].combine_chunks()
    if order == "bytes":
        numbers = pc.negate(table["source_bytes"].cast(pa.float64()))
    else:
        sides = (table[name].cast(pa.float64()) for name in ("source_height", "source_width"))
        numbers = pc.multiply(*sides)
        numbers = pc.negate(numbers) if order == "largest" else numbers
    return pc.fill_null(numbers, np.inf).combine_chunks()


def _has(column: pa.ChunkedArray, value: str | int) -> Any:
    """Which rows are a text, or are lists that hold a value: bool [rows]; no numbers are."""
    if not pa.types.is_list(column.type):
        is_text = pa.types.is_string(column.type)
        return pc.equal(column, value) if is_text else pa.array(np.zeros(len(column), bool))
    listed = column.combine_chunks()
    is_equal = np.asarray(pc.fill_null(pc.equal(pc.list_flatten(listed), value), False))
    found = np.zeros(len(column), bool)
    found[np.asarray(pc.list_parent_indices(listed))[is_equal]] = True
    return pa.array(found)
