"""Small data sets in layouts that people use, and what `list_images` understands of them."""

import csv
import pathlib
from collections.abc import Sequence
from typing import Any

from image_pipeline.components.dataset.record import order_names
from image_pipeline.components.meaning.listing import Listing, list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import label_of, split_of
from tests.drawings import draw, encode_png

WIDTH, HEIGHT = 40, 30


def draw_images(
    folder: pathlib.Path, names: Sequence[str], size: tuple[int, int] = (WIDTH, HEIGHT)
):
    """Writes PNG files, all different, of a width and height, whatever their names end with."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(draw(number, height=size[1], width=size[0])))


def write_table(
    path: pathlib.Path, rows: Sequence[Sequence[Any]], encoding: str = "utf-8", delimiter: str = ","
) -> str:
    """Writes a CSV file; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return str(path)


def understand(images: object, **options: Any) -> Listing:
    """Lists images as ingest does."""
    return list_images(str(images), IngestOptions.model_validate(options))


def labels_of(listing: Listing) -> dict[str, str | None]:
    """The class of each image that can be used, by its path."""
    refs = (ref for ref in listing.refs() if ref.problem is None)
    return {ref.path: label_of(ref, listing.options) for ref in refs}


def splits_of(listing: Listing) -> dict[str, str | None]:
    """The split of each image, by its path."""
    return {ref.path: split_of(ref, listing.options) for ref in listing.refs()}


def column_of(listing: Listing, name: str) -> dict[str, Any]:
    """A further column of each image, by its path."""
    at = order_names(listing.options.further_types).index(name)
    refs = (ref for ref in listing.refs() if ref.problem is None and ref.annotations is not None)
    return {ref.path: ref.annotations.further[at] for ref in refs}


def boxes_of(listing: Listing) -> dict[str, list[tuple[Any, ...]]]:
    """The boxes of each image as they were written: a class and four numbers."""
    found = column_of(listing, "boxes")
    return {path: [(box.name, *box.numbers) for box in boxes] for path, (_, boxes) in found.items()}
