"""Files of arrays as tables: one array has the images, others of the same length are columns."""

import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.arrays.arrays import (
    CHANNELS,
    OPENERS,
    count_file_bytes,
    modified_at,
    read_row,
    reopen_arrays,
)
from image_pipeline.components.arrays.stored_array import StoredArray
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.messages import suggest
from image_pipeline.components.sources.file_names import SPLIT_NAMES, name_of, split_of
from image_pipeline.components.sources.folder import leads_out
from image_pipeline.components.sources.rows import (
    NAME,
    EmbeddedImage,
    Location,
    Row,
    check_rows,
    guess_shape,
)
from image_pipeline.components.sources.source_kinds import SourceKind
from image_pipeline.components.sources.understood import noticed, understood

_ROWS_AT_ONCE = 4096
# Together, of columns of fixed sizes; and rows of those whose cells may have any size.
_BYTES_AT_ONCE, _TEXTS_AT_ONCE = 8 * 2**20, 256
_MOST_CELL_BYTES = 2**20
"""Of a column's row."""
# Kinds of values, as NumPy abbreviates them, that a column keeps: numbers and texts.
_KEPT = "biufSUOT"
# What arrays of labels are called.
_USUAL_LABELS = ("y", "label", "labels", "target", "targets", "classes")
# What arrays of images are called, the likeliest first.
_USUAL_IMAGES = ("image", "images", "x", "data", "img", "imgs")
_MASKS = ("mask", "masks", "segmentation", "annotation", "annotations", "label", "labels", "y")
_ReadCells = Callable[[int, int], list[Any]]
_IMAGE = "image"
"""The column of images where each is an array by itself."""
_ONE = f"[height, width, {', '.join(map(str, CHANNELS[:-1]))} or {CHANNELS[-1]}]"
_RULE = (
    f"images are arrays [N, height, width(, channels)] of numbers, arrays {_ONE} of one image "
    "each, or N files such as JPEGs"
)
_MOST_SHOWN = 3  # arrays of a file, in messages


def read_array_rows(path: str, columns: Mapping[str, str | None]) -> Iterator[Row]:
    """Reads a file of arrays.

    Yields:
      A row for each image, numbered from 0; first of its cells is the image, an `EmbeddedImage`.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if it is damaged, has no images, or an array that is asked for does not fit.
    """
    arrays = _open(path)
    for other in _files_beside(path, columns):
        arrays |= _open(other)
    if columns.get("image", _IMAGE) == _IMAGE and _are_classes(arrays):
        yield from _read_single(path, arrays)
        return
    image = _choose_image(path, arrays, columns)
    check_rows(path, image.rows, lambda: count_file_bytes(path))
    _check_asked(path, image, arrays, columns)
    _check_labels(path, image, arrays, columns)
    if image.rows == 1 and len(image.shape) == 4 and image.shape[-1] in CHANNELS:
        understood(
            f"{os.path.basename(path)}: {image.name!r} is {_describe(image)}; N gray images as "
            "narrow as that are saved as [N, height, width, 1]"
        )
    label = columns.get("label")
    chosen = _choose_columns(image, arrays, columns)
    others = [
        name
        for name, each in arrays.items()
        if each.holds_images
        and name not in (image.name, *columns.values())
        and name_of(name) not in _MASKS
    ]
    if others:
        shown = ", ".join(map(repr, others[:3])) + (", …" if len(others) > 3 else "")
        noticed(
            f"{os.path.basename(path)}: images are {image.name!r}, and other arrays of images are "
            f"not read: {shown}; ingest.columns={{image: …}} takes another"
        )
    if unread := [each for each in arrays.values() if each.problem]:
        more = f", as {len(unread) - 1:,} others are not" * (len(unread) > 1)
        noticed(
            f"{os.path.basename(path)}: {unread[0].name!r} is not read{more}: it is "
            f"{unread[0].problem}"
        )
    readers = {each.name: _find_reader(each, each.name == label) for each in chosen}
    found = {name: read for name, read in readers.items() if read is not None}
    at_once = min(map(_count_at_once, chosen))
    for start in range(0, image.rows, at_once):
        stop = min(start + at_once, image.rows)
        cells = [_read_cells(read, start, stop) for read in found.values()]
        for line, values in enumerate(zip(*cells, strict=True), start):
            damaged = next((value for value in values if isinstance(value, BadImage)), None)
            cells_by_name = {} if damaged else dict(zip(found, values, strict=True))
            yield Row(line, cells_by_name, damaged.message if damaged else None)


def _open(path: str) -> dict[str, StoredArray]:
    try:
        return dict(reopen_arrays(path))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(f"The arrays in {path!r} cannot be read: {error}") from error


def _files_beside(path: str, columns: Mapping[str, str | None]) -> list[str]:
    """The paths of `.npy` files that columns name, and of labels such as `y.npy` of `X.npy`."""
    if not path.lower().endswith(".npy"):
        return []
    folder, slash, own = path.rpartition("/")
    named = {name for name in columns.values() if name and name.lower().endswith(".npy")}
    if "label" not in columns:
        beside = {name for name in _list_names(folder) if name.lower().endswith(".npy")}
        labels = sorted(name for name in beside if name_of(name) in _USUAL_LABELS)
        labels = [name for name in labels if split_of(name) == split_of(own)][:1]
        if labels and files.is_local(path) and leads_out(folder or ".", labels[0]):
            raise UserError(
                f"{labels[0]!r} beside {path!r} is a link that leads out of its folder; copy the "
                "file there, name it by ingest.columns={label: …}, or take none by {label: null}."
            )
        named.update(labels)
    return [f"{folder}{slash}{name}" for name in sorted(named - {own})]


def _list_names(folder: str) -> list[str]:
    """The names in a folder, or in one behind a URI."""
    if files.is_local(folder):
        return os.listdir(folder or ".")
    return [uri.rpartition("/")[2] for uri in files.list_files(folder, "*")]


def _choose_image(
    path: str, arrays: Mapping[str, StoredArray], columns: Mapping[str, str | None]
) -> StoredArray:
    """The array of images that is asked for, or else the likeliest one."""
    asked = columns.get("image")
    if asked is not None and asked not in arrays:
        raise UserError(
            f"ingest.columns names {asked!r} as image, but {path!r} has no such array; "
            f"{suggest(asked, arrays)}known: {', '.join(arrays)}."
        )
    if asked is not None:
        if not arrays[asked].holds_images:
            raise UserError(
                f"ingest.columns names {asked!r} as image, but it is {_describe(arrays[asked])}; "
                f"{_RULE}{_suggest_shape([arrays[asked]])}."
            )
        return arrays[asked]
    images = [each for each in arrays.values() if each.holds_images]
    if not images:
        shown = itertools.islice(arrays.items(), _MOST_SHOWN)
        listed = "; ".join(f"{name}: {_describe(each)}" for name, each in shown)
        listed += f"; … {len(arrays):,} in all" * (len(arrays) > _MOST_SHOWN)
        raise UserError(
            f"{path!r} holds no images ({listed or 'it has no array'}); "
            f"{_RULE}{_suggest_shape(arrays.values())}. A generator reads what is stored otherwise "
            "(docs/generators.md)."
        )
    image = min(images, key=_unlikeliness)
    alike = [each for each in images if _unlikeliness(each) == _unlikeliness(image)]
    alike = [each for each in alike if each.name not in columns.values()]
    if len(alike) > 1 and (image.rows == 1 or len(image.shape) == 3):
        first, second = (f"{each.name!r} ({_describe(each)})" for each in alike[:2])
        beside = [each for each in arrays.values() if each not in images][:1]
        others = "".join(f", beside {each.name!r} ({_describe(each)})" for each in beside)
        raise UserError(
            f"{path!r} has {len(alike):,} arrays that may be its images, such as {first} and "
            f"{second}{others}, and no name says which. Each is one image, and its group its "
            f"class, if a file has nothing but arrays {_ONE} or [1, height, width, channels], and "
            "none has a usual name of images or masks (x, image, mask …). Name one by "
            "ingest.columns={image: …}, save them so, or read the file by a generator "
            "(docs/generators.md)."
        )
    return image


def _are_classes(arrays: Mapping[str, StoredArray]) -> bool:
    """Whether a file has a group a class, and nothing in them but arrays of one image each."""
    usual = (*_USUAL_IMAGES, *_MASKS)
    return len(arrays) > 1 and all(
        each.holds_images and each.rows == 1 and name_of(name) not in usual
        for name, each in arrays.items()
    )


def _read_single(path: str, arrays: Mapping[str, StoredArray]) -> Iterator[Row]:
    """A row for each array, which is one image, with what its groups name: its split and class."""
    groups = [name.split("/")[:-1] for name in arrays]
    are_splits = all(each and each[0].lower() in SPLIT_NAMES for each in groups)
    have_classes = any(len(each) > are_splits for each in groups)
    understood(
        f"{os.path.basename(path)}: each array is one image"
        + ", its first group its split" * are_splits
        + ", its last group its class" * have_classes
    )
    modified_ns = modified_at(path)
    for line, (array, own) in enumerate(zip(arrays.values(), groups, strict=True)):
        (cell,) = _read_cells(functools.partial(_read_images, array, modified_ns), 0, 1)
        if isinstance(cell, BadImage):
            yield Row(line, {}, cell.message)
            continue
        cells = {_IMAGE: cell, NAME: array.name}
        cells |= {"split": SPLIT_NAMES[own[0].lower()]} if are_splits else {}
        yield Row(line, cells | ({"label": own[-1]} if len(own) > are_splits else {}))


def _suggest_shape(arrays: Iterable[StoredArray]) -> str:
    """How to save arrays of two sides that may be images, or have one in a row; empty if none."""
    readable = (each for each in arrays if not each.problem and each.dtype.kind in "iuf")
    flat = [each for each in readable if len(each.shape) == 2]
    for array in flat:
        save = f"; if its rows are images, save {array.name!r} as .reshape"
        side, _, channels = guess_shape(array.shape[1]) or (0, 0, 0)
        if channels == 1:
            return f"{save}(-1, {side}, {side})"
        if channels == 3:
            planes = f".reshape(-1, 3, {side}, {side}).transpose(0, 2, 3, 1)"
            return f"{save}(-1, {side}, {side}, 3), or {planes} if all red values come first"
    return "; if each is one image, save it as [height, width, 1]" if len(flat) > 1 else ""


def _unlikeliness(array: StoredArray) -> tuple[bool, bool, int]:
    """Those of many images come first, then those for training; masks last."""
    called = name_of(array.name)
    usual = _USUAL_IMAGES.index(called) if called in _USUAL_IMAGES else len(_USUAL_IMAGES)
    is_other = split_of(array.name) not in ("", "train", "training")
    return array.rows == 1, is_other, usual + 9 * (called in _MASKS)


def _check_asked(
    path: str,
    image: StoredArray,
    arrays: Mapping[str, StoredArray],
    columns: Mapping[str, str | None],
) -> None:
    for role, name in columns.items():
        array = arrays.get(name or "")
        if array is None:  # Whoever completes the options says which columns there are.
            continue
        if array.problem:
            raise UserError(
                f"ingest.columns names {name!r} as {role}, but in {path!r} it is {array.problem}."
            )
        if array.row_bytes > _MOST_CELL_BYTES and not array.holds_images:
            raise UserError(
                f"ingest.columns names {name!r} as {role}, but in {path!r} each of its rows has "
                f"{array.row_bytes:,} bytes, more than the {_MOST_CELL_BYTES:,} of a cell; name "
                "another array."
            )
        if array.rows != image.rows:
            is_one = array.rows == 1 and array.holds_images
            has = f"is {_describe(array)}" if is_one else f"has {array.rows:,} rows"
            raise UserError(
                f"ingest.columns names {name!r} as {role}, which {has}, but the images "
                f"{image.name!r} have {image.rows:,} ({_describe(image)}); name arrays of the same "
                "length."
            )


def _choose_columns(
    image: StoredArray, arrays: Mapping[str, StoredArray], columns: Mapping[str, str | None]
) -> list[StoredArray]:
    """The images, and then what has as many rows and is of no other split."""
    chosen, split = [image], split_of(image.name)
    for name, array in arrays.items():
        is_fitting = array.rows == image.rows and not array.problem
        is_own = split_of(name) in ("", split) or not split
        is_asked = name in columns.values()
        if name != image.name and is_fitting and (is_asked or (is_own and _is_simple(array))):
            chosen.append(array)
    return chosen


def _find_reader(array: StoredArray, are_tags: bool) -> _ReadCells | None:
    """What reads an array as a column; None if cells of this type are kept nowhere.

    Rows of 0 and 1 may be tags.
    """
    if array.holds_images:
        return functools.partial(_read_images, array, modified_at(array.path))
    if array.dtype.kind not in _KEPT or len(array.shape) > 2:
        return None
    if _is_one_hot(array) and array.shape[1] > 1:
        return functools.partial(_read_classes, array)
    return functools.partial(
        _read_tags if are_tags and _is_multi_hot(array) else _read_values, array
    )


def _read_images(
    array: StoredArray, modified_ns: int, start: int, stop: int
) -> list[EmbeddedImage | None]:
    path, name = array.path, array.name
    return [
        EmbeddedImage(Location(path, "array", row, 1, name), size, modified_ns)
        for row, size in enumerate(array.count_bytes(start, stop), start)
    ]


def _read_values(array: StoredArray, start: int, stop: int) -> list[Any]:
    rows = array.read(start, stop)
    if rows.dtype.kind == "U" and rows.dtype.itemsize:
        native = np.ascontiguousarray(rows, rows.dtype.newbyteorder("="))
        if (native.reshape(-1).view(np.uint32) > sys.maxunicode).any():
            raise BadImage(CORRUPT, f"{array.name!r} has a value that is not text")
    texts = rows.reshape(-1) if rows.dtype.hasobject else ()
    if any(len(text) > _MOST_CELL_BYTES for text in texts):
        raise BadImage(
            CORRUPT, f"a text of {array.name!r} has more than {_MOST_CELL_BYTES:,} bytes"
        )
    is_single = rows.ndim == 2 and rows.shape[1] == 1
    cells = (rows[:, 0] if is_single else rows).tolist()
    return [os.fsdecode(c) for c in cells] if cells and isinstance(cells[0], bytes) else cells


def _read_classes(array: StoredArray, start: int, stop: int) -> list[Any]:
    """One-hot rows as the index of their 1."""
    rows = array.read(start, stop)
    classes = rows.argmax(axis=1).tolist()
    other = BadImage(
        CORRUPT, f"{array.name!r} is one-hot, but here it has no 1, or several, or else"
    )
    return [c if ok else other for c, ok in zip(classes, _are_one_hot(rows), strict=True)]


def _read_tags(array: StoredArray, start: int, stop: int) -> list[Any]:
    """Rows of 0 and 1 as the indices of their 1s."""
    rows = array.read(start, stop)
    other = BadImage(CORRUPT, f"{array.name!r} has rows of 0 and 1, but here it has something else")
    indices = [np.flatnonzero(row).tolist() for row in rows]
    return [p if ok else other for p, ok in zip(indices, _are_multi_hot(rows), strict=True)]


def _read_cells(read: _ReadCells, start: int, stop: int) -> list[Any]:
    """The cells of some rows; what is wrong stands for those in a damaged part of the file."""
    try:
        return read(start, stop)
    except BadImage as error:
        if stop - start == 1:
            return [error]
    middle = (start + stop) // 2
    return _read_cells(read, start, middle) + _read_cells(read, middle, stop)


def _check_labels(
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
        if name_of(name) in _USUAL_LABELS and split_of(name) == split_of(image.name)
    ]
    if own and all(array.problem for array in own):
        raise UserError(
            f"In {path!r} the labels {own[0].name!r} cannot be read: they are {own[0].problem}. "
            "Or name other labels by ingest.columns={label: …}, or none by {label: null}."
        )
    own = [array for array in own if not array.problem]
    if own and all(array.rows != image.rows for array in own):
        raise UserError(
            f"In {path!r} the labels {own[0].name!r} have {own[0].rows:,} rows, but the images "
            f"{image.name!r} have {image.rows:,} ({_describe(image)}); correct the file, "
            "name other labels by ingest.columns={label: …}, or none by {label: null}."
        )
    _check_classes(path, [array for array in own if array.rows == image.rows], columns)


def _check_classes(
    path: str, labels: Sequence[StoredArray], columns: Mapping[str, str | None]
) -> None:
    """Refuses labels without a class for each image, unless the options ask for others."""
    is_asked = any(array.name in columns.values() for array in labels)
    if not labels or is_asked or any(_is_simple(array) for array in labels):
        return
    name = labels[0].name
    as_tags = f"{{label: {name}}} takes them as tags, " if _is_multi_hot(labels[0]) else ""
    raise UserError(
        f"In {path!r} the labels {name!r} are {_describe(labels[0])}, which name no class for each "
        "image; save a number or a text for each, or one-hot rows. Or by ingest.columns: "
        f"{as_tags}{{label: …}} names other labels, and {{label: null}} takes none."
    )


def _check_tags(path: str, labels: StoredArray | None) -> None:
    """Refuses rows of fractions as tags: each would be the name of a class."""
    if labels is None or labels.problem or len(labels.shape) != 2 or _is_one_hot(labels):
        return
    if labels.dtype.kind == "f" and not _is_multi_hot(labels):
        raise UserError(
            f"ingest.columns names {labels.name!r} as label, but in {path!r} it is "
            f"{_describe(labels)}: rows of labels are one-hot, of 0 and 1, or lists of tags."
        )


def _count_at_once(array: StoredArray) -> int:
    """How many rows of a column are read together."""
    if array.dtype.hasobject and array.read_sizes is None:
        return min(_TEXTS_AT_ONCE, array.rows_at_once) if array.holds_files else _TEXTS_AT_ONCE
    if array.holds_images and not (array.holds_files and array.read_sizes is None):
        return _ROWS_AT_ONCE  # Only their sizes are looked at.
    return max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // max(1, array.row_bytes)))


def _is_simple(array: StoredArray) -> bool:
    """Whether an array is a column, or images, without being asked for."""
    if array.row_bytes > _MOST_CELL_BYTES and not array.holds_images:
        return False
    is_value = len(array.shape) == 1 and array.dtype.kind in _KEPT
    return array.holds_images or is_value or _is_one_hot(array)


def _is_one_hot(array: StoredArray) -> bool:
    """Whether rows say by the index of their one 1 which class they are of, or hold one value."""
    if len(array.shape) == 2 and array.shape[1] == 1 and array.dtype.kind in "biuf":
        return not array.problem
    return _are_first(array, _are_one_hot)


def _is_multi_hot(array: StoredArray) -> bool:
    """Whether rows say by the indices of their 1s which tags they have."""
    return _are_first(array, _are_multi_hot)


def _are_first(array: StoredArray, are_so: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether the first rows of numbers are so; False if they are none, or damaged."""
    if len(array.shape) != 2 or array.problem or array.dtype.kind not in "biuf":
        return False
    if array.row_bytes > _MOST_CELL_BYTES:
        return False
    try:
        first = array.read(0, min(array.rows, _count_at_once(array)))
    except BadImage:
        return False
    return bool(len(first)) and bool(are_so(first).all())


def _are_multi_hot(rows: np.ndarray) -> np.ndarray:
    """Of each row [n, tags], whether it has nothing but 0 and 1."""
    return ((rows == 0) | (rows == 1)).all(axis=1)


def _are_one_hot(rows: np.ndarray) -> np.ndarray:
    """Of each row [n, classes], whether it has one 1 and else zeros."""
    return _are_multi_hot(rows) & ((rows == 1).sum(axis=1) == 1)


def _describe(array: StoredArray) -> str:
    """What an array is: its type and sides, or why it cannot be read."""
    if array.problem:
        return array.problem
    is_one = array.holds_images and array.rows == 1 and not array.holds_files
    sides = ", ".join(map(str, array.shape[is_one:]))
    type_ = "text" if array.dtype.kind in "SUO" else array.dtype.name
    return f"{'one image, ' * is_one}{type_} [{sides}]"


ARRAYS = SourceKind(
    name="a table",
    endings=tuple(OPENERS),
    rows=read_array_rows,
    reads_asked=True,
    locations={"array": read_row},
)
