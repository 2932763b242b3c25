"""Records whose images are values alone, of which a person has to state the shape."""

import collections
import math
from collections.abc import Mapping
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.column_values import first_rows
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.column_types import Items
from image_pipeline.components.sources.file_names import ending_of
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.rows import EmbeddedImage, Unusable, guess_shape
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.tables.column_names import usual_columns
from image_pipeline.components.tables.rows_once import TableRows
from image_pipeline.components.tables.text_rows import TEXTS

_LEAST_VALUES = 64  # of an image
_ENOUGH = 0.5  # of the rows that are looked at


class UnstatedShape(UserError):
    """That images are values alone, of which nothing states the shape."""


def check_pixels(images: str, options: IngestOptions, rows: TableRows) -> None:
    """Refuses records whose images are values alone, if their shape is not stated, or another is.

    Raises:
      UnstatedShape: if it is not; it says which shape there may be.
      UserError: if it is another.
    """
    counts = _find_values(images, options, rows)
    if not counts:
        return
    column, count = min(counts.items(), key=lambda item: (guess_shape(item[1]) is None, -item[1]))
    shape = list(guess_shape(count) or ())
    if options.pixel_shape is not None:
        stated = f"ingest.pixel_shape={list(options.pixel_shape)}"
        fitting = f", such as {shape}" if shape else ""
        raise UserError(
            f"{stated} are {math.prod(options.pixel_shape):,} values, but {column!r} of {images!r} "
            f"has {count:,}; state the shape that it has{fitting}."
        )
    likely = f"{shape}, as `image-pipeline init` does" if shape else "[HEIGHT, WIDTH, CHANNELS]"
    what = "column" if kind_of(images) in TEXTS else "feature"
    raise UnstatedShape(
        f"No {what} of {images!r} is the file of an image, or pixels whose shape is known. If the "
        f"{count:,} values of {column!r} are an image, state its shape by ingest.pixel_shape="
        f"{likely}; if it is another {what}, or one that has the path of a file, name it by "
        "ingest.columns={image: …}."
    )


def propose_shape(images: str, options: IngestOptions) -> IngestOptions:
    """The options with the shape that images likely have which are values alone; or as they are."""
    if options.pixel_shape is not None or not kind_of(images).takes_shape:
        return options
    counts = _find_values(images, options, TableRows(images, options))
    shapes = {column: guess_shape(count) for column, count in counts.items()}
    likely = {column: shape for column, shape in shapes.items() if shape is not None}
    if len(likely) != 1:
        return options
    ((column, shape),) = likely.items()
    words = (
        f"{counts[column]:,} values of {column!r} are taken as {' × '.join(map(str, shape))} "
        "(height × width × channels), row by row, the channels last (ingest.pixel_shape)"
    )
    return options.model_copy(update={"pixel_shape": shape}).say_understood([words])


def _find_values(images: str, options: IngestOptions, rows: TableRows) -> Mapping[str, int]:
    """How many values each feature has that may be an image; none if images are known already."""
    if not kind_of(images).takes_shape:
        return {}
    seen = [row.cells for _, row in first_rows(rows)]
    counts: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for cells in seen:
        for column, cell in cells.items():
            if isinstance(cell, Items) and cell.kind != "string":
                counts[column][len(cell)] += 1
            elif isinstance(cell, Unusable) and guess_shape(cell.size_bytes):
                counts[column][cell.size_bytes] += 1
    usual = {column: each.most_common(1)[0] for column, each in counts.items()}
    found = {
        column: count
        for column, (count, times) in usual.items()
        if count >= _LEAST_VALUES and times > _ENOUGH * len(seen)
    }
    image = usual_columns(list({c: None for cells in seen for c in cells}), options.columns)
    if named := image.get("image"):
        return {named: found[named]} if named in found else {}
    has_images = any(_is_image(cell) for cells in seen for cell in cells.values())
    return {} if has_images else found


def _is_image(cell: Any) -> bool:
    """Whether it is one, or the name of a file that is."""
    texts = cell if isinstance(cell, list) else [cell]
    are_names = any(isinstance(each, str) and ending_of(each) in IMAGE_ENDINGS for each in texts)
    return isinstance(cell, EmbeddedImage) or are_names
