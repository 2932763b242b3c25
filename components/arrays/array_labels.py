"""Arrays of labels beside images: which can be read, and which are refused."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from image_pipeline.components.arrays.arrays import StoredArray
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.file_names import name_of, split_of

_ROWS_AT_ONCE = 4096
# Together, of columns of fixed sizes; and rows of those whose cells may have any size.
_BYTES_AT_ONCE, _TEXTS_AT_ONCE = 8 * 2**20, 256
MOST_CELL_BYTES = 2**20
"""Of a column's row."""
# Kinds of values, as NumPy abbreviates them, that a column keeps: numbers and texts.
KEPT = "biufSUOT"
# What arrays of labels are called.
USUAL_LABELS = ("y", "label", "labels", "target", "targets", "classes")


def check_labels(
    path: str,
    image: StoredArray,
    arrays: Mapping[str, StoredArray],
    columns: Mapping[str, str | None],
) -> None:
    """Refuses labels that do not fit, or cannot be read: without them, no image would have one."""
    if "label" in columns:
        _check_tags(path, arrays.get(columns["label"] or ""))
        return
    own = [
        array
        for name, array in arrays.items()
        if name_of(name) in USUAL_LABELS and split_of(name) == split_of(image.name)
    ]
    if own and own[0].problem:
        raise UserError(
            f"In {path!r} the labels {own[0].name!r} cannot be read: they are {own[0].problem}. "
            "Or name other labels by ingest.columns={label: …}, or none by {label: null}."
        )
    if own and all(array.rows != image.rows for array in own):
        raise UserError(
            f"In {path!r} the labels {own[0].name!r} have {own[0].rows:,} rows, but the images "
            f"{image.name!r} have {image.rows:,}; correct the file, name other labels by "
            "ingest.columns={label: …}, or none by {label: null}."
        )
    _check_classes(path, [array for array in own if array.rows == image.rows], columns)


def _check_classes(
    path: str, labels: Sequence[StoredArray], columns: Mapping[str, str | None]
) -> None:
    """Refuses labels of which none is a class for each image, unless they are asked for as else."""
    is_asked = any(array.name in columns.values() for array in labels)
    if not labels or is_asked or any(is_simple(array) for array in labels):
        return
    name = labels[0].name
    as_tags = f"{{label: {name}}} takes them as tags, " if is_multi_hot(labels[0]) else ""
    raise UserError(
        f"In {path!r} the labels {name!r} are {describe(labels[0])}, which name no class for each "
        "image; save a number or a text for each, or one-hot rows. Or by ingest.columns: "
        f"{as_tags}{{label: …}} names other labels, and {{label: null}} takes none."
    )


def _check_tags(path: str, labels: StoredArray | None) -> None:
    """Refuses rows of fractions as tags: each would be the name of a class."""
    if labels is None or labels.problem or len(labels.shape) != 2 or is_one_hot(labels):
        return
    if labels.dtype.kind == "f" and not is_multi_hot(labels):
        raise UserError(
            f"ingest.columns names {labels.name!r} as label, but in {path!r} it is "
            f"{describe(labels)}: rows of labels are one-hot, of 0 and 1, or lists of tags."
        )


def count_at_once(array: StoredArray) -> int:
    """How many rows of a column are read together."""
    if array.dtype.hasobject and array.read_sizes is None:
        return min(_TEXTS_AT_ONCE, array.rows_at_once) if array.holds_files else _TEXTS_AT_ONCE
    if array.holds_images and not (array.holds_files and array.read_sizes is None):
        return _ROWS_AT_ONCE  # Only their sizes are looked at.
    return max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // max(1, array.row_bytes)))


def is_simple(array: StoredArray) -> bool:
    """Whether an array is a column, or images, without being asked for."""
    if array.row_bytes > MOST_CELL_BYTES and not array.holds_images:
        return False
    is_value = len(array.shape) == 1 and array.dtype.kind in KEPT
    return array.holds_images or is_value or is_one_hot(array)


def is_one_hot(array: StoredArray) -> bool:
    """Whether rows say by the place of their one 1 which class they are of, or hold one value."""
    if len(array.shape) == 2 and array.shape[1] == 1 and array.dtype.kind in "biuf":
        return not array.problem
    return _are_first(array, are_one_hot)


def is_multi_hot(array: StoredArray) -> bool:
    """Whether rows say by the places of their 1s which tags they have."""
    return _are_first(array, are_multi_hot)


def _are_first(array: StoredArray, are_so: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether the first rows of numbers are so; False if they are none, or damaged."""
    if len(array.shape) != 2 or array.problem or array.dtype.kind not in "biuf":
        return False
    if array.row_bytes > MOST_CELL_BYTES:
        return False
    try:
        first = array.read(0, min(array.rows, count_at_once(array)))
    except BadImage:
        return False
    return bool(len(first)) and bool(are_so(first).all())


def are_multi_hot(rows: np.ndarray) -> np.ndarray:
    """Of each row [n, tags], whether it has nothing but 0 and 1."""
    return ((rows == 0) | (rows == 1)).all(axis=1)


def are_one_hot(rows: np.ndarray) -> np.ndarray:
    """Of each row [n, classes], whether it has one 1 and else zeros."""
    return are_multi_hot(rows) & ((rows == 1).sum(axis=1) == 1)


def describe(array: StoredArray) -> str:
    """What an array is: its type and sides, or why it cannot be read."""
    if array.problem:
        return array.problem
    sides = ", ".join(map(str, array.shape))
    return f"{'text' if array.dtype.kind in 'SUO' else array.dtype.name} [{sides}]"
