"""Rows of JSON: an object a line, a list of objects, or the images of a COCO file.

COCO's form: https://cocodataset.org/#format-data.
"""

import codecs
import collections
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.extras import need
from image_pipeline.components.json_text import once, parse_json
from image_pipeline.components.labels.box_cells import BOXES, CLASSES, SIZE, StatedBoxes
from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.file_names import split_named
from image_pipeline.components.sources.rows import MOST_COLUMNS, Row, TableError
from image_pipeline.components.sources.source_kinds import Asked, SourceKind, read_head
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.tables.createml import count_outlines, find_form, join_boxes
from image_pipeline.components.tables.drawn_masks import (
    NO_SEGMENT,
    OUTLINES,
    SEGMENTS,
    find_time,
    list_levels,
    read_segments,
)
from image_pipeline.components.tables.joined_rows import ONLY_CLASS
from image_pipeline.components.tables.outlines import (
    BACKGROUND,
    COLUMN,
    asks_for_outlines,
    read_outlines,
    refer_to_outlines,
)
from image_pipeline.components.tables.panoptic import is_panoptic, read_panoptic
from image_pipeline.components.tables.text_rows import as_text, open_lines

_SHORT = {"images": "imgs", "annotations": "anns", "categories": "cats"}  # as COCO-Text has them
_MOST_PX = 2**31  # of a side: more is not a size


def _read_json_lines(path: str, columns: Asked) -> Iterator[Row]:
    """An object a line."""
    with open_lines(path) as lines:
        yield from (_parse_line(line, text) for line, text in enumerate(lines, 1) if text.strip())


def _parse_line(line: int, text: str) -> Row:
    try:
        found = parse_json(text)
        if "\\u" in text or not text.isascii():
            json.dumps(found, ensure_ascii=False).encode()  # Half a surrogate pair is not text.
    except UnicodeEncodeError:
        return Row(line, {}, "it is not a JSON object (it has text that is not UTF-8)")
    except (ValueError, RecursionError) as error:
        return Row(line, {}, f"it is not a JSON object ({error})")
    if not isinstance(found, dict):
        return Row(line, {}, "it is not a JSON object")
    if len(found) > MOST_COLUMNS:
        return Row(line, {}, f"it has {len(found):,} keys; a row may have {MOST_COLUMNS:,}")
    return Row(line, found)


def _read_json(path: str, columns: Asked) -> Iterator[Row]:
    """A COCO file's images, or a list of objects; `line` is an object's number. Held in memory."""
    with files.open_input(path) as file:
        text = as_text(file).read()
    keeps_all, left_out, has_keypoints = asks_for_outlines(columns), 0, False

    def make_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        """Leaves out what is most of a COCO file, and not used; outlines are kept as text."""
        nonlocal left_out, has_keypoints
        read = dict(pairs)
        if len(read) < len(pairs):
            once(pairs)  # Says which key appears twice; asked here, it would always take its time.
        has_keypoints |= bool(read.pop("keypoints", None))
        if isinstance(outline := read.pop("segmentation", None), list | dict):
            if keeps_all or not read.get("bbox"):
                read["segmentation"] = _Outline(json.dumps(outline))
            else:
                left_out += bool(outline)
        elif outline is not None:
            read["segmentation"] = outline
        return read

    try:
        found = parse_json(text, make_object)
    except ValueError as error:
        raise TableError(getattr(error, "lineno", 1), f"it is not valid JSON ({error}).") from error
    if isinstance(found, dict):
        rows = _add_licences(read_coco(found, path, columns), found)
        if has_keypoints:
            noticed(f"{os.path.basename(path)}: keypoints of objects are not read")
        if left_out:
            understood(
                f"{os.path.basename(path)}: boxes; ingest.columns={{mask: {COLUMN}}} takes the "
                "outlines of objects as masks of categories"
            )
    elif isinstance(found, list):
        rows = found
        if form := find_form(found):
            rows = [join_boxes(each, form) for each in found]
            table = os.path.basename(path)
            understood(f"{table}: {form.name}'s boxes, {form.words} in pixels")
            if outlines := count_outlines(found, form):
                noticed(f"{table}: objects that are lines or areas, not boxes: {outlines:,}")
    else:
        raise TableError(1, "it must be a COCO file or a list of objects, a row each.")
    has_halves = "\\ud" in text.lower()  # of surrogate pairs, which are not text by themselves
    for number, cells in enumerate(rows, 1):
        is_object = isinstance(cells, dict)
        try:
            if has_halves:
                os.fsencode(json.dumps(cells, ensure_ascii=False, default=repr))
        except UnicodeEncodeError:
            is_object = False
        if is_object and isinstance(cells.get("segmentation"), _Outline):
            del cells["segmentation"]  # Of a list of objects, which has no sizes.
        yield Row(number, cells) if is_object else Row(number, {}, "it is not a JSON object")


class _Outline(str):
    """An outline as JSON: a tenth of what its numbers take."""


def _holds_object(images: str) -> bool:
    """Whether a file holds one object, where a list of them is a table."""
    return read_head(images).lstrip(codecs.BOM_UTF8 + b" \t\r\n").startswith(b"{")


def read_coco(
    content: Mapping[str, Any], path: str = "", columns: Asked = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Joins images, annotations and categories.

    Args:
      content: the whole file, with outlines as JSON.
      path: of the file.
      columns: those that are asked for: masks of outlines, or else boxes.

    Returns:
      A row an image, in the order of the file: `file_name`, `image_id` and `boxes`, see
      `box_cells.read_boxes`. The first one also tells all classes, in the order of their ids. Of
      panoptic annotations, see `read_panoptic`; of outlines that are asked for, or have no boxes
      beside them, see `_refer_to_masks`.

    Raises:
      TableError: if it is not COCO, or an annotation's image is not listed, or listed twice.
    """
    images, annotations, categories = (
        _list_objects(content, key) for key in ("images", "annotations", "categories")
    )
    are_named = bool(categories) or any("category_id" in each for each in annotations)
    names = {each.get("id"): _name_of(each) for each in sorted(categories, key=_id_of)}
    boxes: dict[Any, list[dict[str, Any]]] = collections.defaultdict(list)
    for each in annotations:
        category = each.get("category_id") if are_named else ONLY_CLASS
        box = {"bbox": each.get("bbox"), "iscrowd": each.get("iscrowd", 0)}
        boxes[each.get("image_id")].append(box | {"category": names.get(category, category)})
    _check_ids(collections.Counter(each.get("id") for each in images), boxes)
    if is_panoptic(annotations):
        return read_panoptic(path, images, annotations, names)
    has_outlines = any(each.get(COLUMN) for each in annotations)
    if asks_for_outlines(columns) or (
        has_outlines and not any(each.get("bbox") for each in annotations)
    ):
        return _refer_to_masks(path, images, annotations, names)
    if annotations and not any(each.get("bbox") for each in annotations):
        return _read_labels(images, boxes)
    rows: list[dict[str, Any]] = []
    for each in images:
        stated = {SIZE: _read_size(each), BOXES: boxes.get(each.get("id"), [])}
        row = {"file_name": _find_name(each), "image_id": each.get("id")}
        split = each.get("split", each.get("set"))  # the latter is COCO-Text's
        row |= {"split": split} if isinstance(split, str) and split_named(split) else {}
        rows.append(row | {BOXES: StatedBoxes(stated)})
    for row in rows[:1]:
        row[BOXES][CLASSES] = list(names.values()) if are_named else [ONLY_CLASS]
    return rows


def _add_licences(rows: list[dict[str, Any]], content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of all images, each with its `license` by name, if the file lists such."""
    listed = content.get("licenses")
    named = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    # As text, since an id may be a number in one place and text in another.
    names = {str(each.get("id")): each.get("name") or each.get("url") or "" for each in named}
    images = _list_objects(content, "images")
    said = [names.get(str(image["license"])) if "license" in image else None for image in images]
    if not any(said):
        return rows
    return [row | {"license": name or ""} for row, name in zip(rows, said, strict=True)]


def _read_labels(
    images: Sequence[Mapping[str, Any]], annotations: Mapping[Any, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """A row an image, with its category as the label, of annotations that say nothing else."""
    rows = []
    for image in images:
        found = {each["category"] for each in annotations.get(image.get("id"), ())}
        if len(found) > 1 or not all(isinstance(each, str) for each in found):
            raise TableError(
                1,
                "its annotations have neither a bbox nor a segmentation, nor one category for each "
                f"image, as for the image {show(image.get('id'))}; write the categories of each "
                "as a CSV with the columns path and label.",
            )
        row = {"file_name": _find_name(image), "image_id": image.get("id")}
        rows.append(row | {"label": next(iter(found), None)})
    return rows


def _find_name(image: Mapping[str, Any]) -> Any:
    """An image's path; or the end of its address, where nothing else is given, as by LVIS."""
    name, url = image.get("file_name"), image.get("coco_url")
    return url.rpartition("/")[2] if name is None and isinstance(url, str) else name


def _read_size(image: Mapping[str, Any]) -> list[Any]:
    """Width and height, empty if they are not stated."""
    sides = [image.get("width"), image.get("height")]
    are_sides = all(isinstance(side, int | float) and 1 <= side < _MOST_PX for side in sides)
    return sides if are_sides else []


def _refer_to_masks(
    path: str,
    images: Sequence[Mapping[str, Any]],
    annotations: Sequence[Mapping[str, Any]],
    names: Mapping[Any, str],
) -> list[dict[str, Any]]:
    """A row an image, with the mask of its objects; categories are drawn with their own ids.

    An image without objects is all background, as one of boxes has none.
    """
    need("coco", f"Drawing the outlines of {os.path.basename(path)!r} as masks")
    classes = {BACKGROUND: [NO_SEGMENT]}
    for name, levels in list_levels(names).items():
        classes.setdefault(name, []).extend(levels)
    objects: dict[Any, list[tuple[int | None, str, str]]] = collections.defaultdict(list)
    for each in sorted(annotations, key=_id_of):
        category = each.get("category_id")
        called = f"in annotation {show(each.get('id'))}, an object of the category {show(category)}"
        level = category if category in names else None
        objects[each.get("image_id")].append((level, str(each.get(COLUMN) or "[]"), called))
    modified_ns = find_time(path)
    rows: list[dict[str, Any]] = []
    for image in images:
        own, new_classes = objects[image.get("id")], {} if rows else classes
        mask = refer_to_outlines(path, _read_size(image), own, new_classes, modified_ns)
        row = {"file_name": _find_name(image), "image_id": image.get("id")}
        rows.append(row | {COLUMN: mask})
    return rows


def _list_objects(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = content.get(key, content.get(_SHORT[key]))
    if isinstance(listed, dict):  # by their ids
        listed = [{"id": i, **o} if isinstance(o, dict) else o for i, o in listed.items()]
    if not isinstance(listed, list) or not all(map(_is_object, listed)):
        raise TableError(
            1,
            f"it must be a COCO file, with lists of images, annotations and categories, but its "
            f"{key!r} is not such a list; other annotations can be a table with a column of boxes.",
        )
    return listed


def _is_object(each: Any) -> bool:
    ids = ("id", "image_id", "category_id")
    return isinstance(each, dict) and not any(isinstance(each.get(id_), list | dict) for id_ in ids)


def _check_ids(listed: Mapping[Any, int], boxes: Iterable[Any]) -> None:
    """Checks that it is plain which image each annotation is of."""
    if stray := [id_ for id_ in boxes if id_ not in listed]:
        raise TableError(
            1,
            f"{len(stray)} images have annotations, but are not listed, such as the one with the "
            f"id {show(stray[0])}; list each image once.",
        )
    if shared := [id_ for id_ in boxes if listed[id_] > 1]:
        raise TableError(
            1,
            f"{listed[shared[0]]} images have the id {show(shared[0])}, which annotations name; "
            "give each an id of its own.",
        )


def _id_of(category: Mapping[str, Any]) -> tuple[bool, Any]:
    """What puts ids in order: numbers, even as text, before names."""
    id_ = category.get("id")
    try:
        return (False, float(id_))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return (True, str(id_))


def _name_of(category: Mapping[str, Any]) -> str:
    """As a box has it, see `read_boxes`; the id, if it has none."""
    name = category.get("name")
    return decode_name(str(category.get("id") if name is None else name).strip())


JSON_LINES = SourceKind(name="a table", endings=(".jsonl", ".ndjson"), rows=_read_json_lines)
COCO = SourceKind(
    name="a COCO file",
    endings=(".json",),
    recognise=_holds_object,
    rows=_read_json,
    locations={SEGMENTS: read_segments, OUTLINES: read_outlines},
)
JSON = SourceKind(name="a table", endings=(".json",), rows=_read_json)
