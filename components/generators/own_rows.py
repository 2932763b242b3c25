"""A source of the user's own that gives rows, as a table has them: `rows:MODULE:FUNCTION`.

The names of the cells say which labels images have, classes, tags, values, masks or boxes, as in a
table; what they show is read by their names.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.generators.generator_items import plain_cell, tell
from image_pipeline.components.generators.generator_worker import WrongItem
from image_pipeline.components.messages import show
from image_pipeline.components.sources.own_source import OwnObject, explain_wrong
from image_pipeline.components.sources.references import Annotations, ImageRef
from image_pipeline.components.sources.rows import NAME, EmbeddedImage, Location, Row
from image_pipeline.components.sources.source_kinds import Asked, SourceKind
from image_pipeline.components.tables.table import Table

_PREFIX = "rows:"
_KIND = "own row"  # of locations
_IMAGES = ("image", "mask")


def read_own_rows(called: str, columns: Asked) -> Iterator[Row]:
    """The rows that the user's `rows` gives: dicts of cells.

    Args:
      called: `MODULE:FUNCTION`, and perhaps a colon and a text.
      columns: the cells that are the image and the mask, if they are not called so.

    Raises:
      UserError: if it fails, or gives anything else.
    """
    root = f"{_PREFIX}{called}"
    for number, cells in enumerate(_open(root).iterate()):
        if not isinstance(cells, Mapping) or not all(isinstance(name, str) for name in cells):
            raise UserError(
                f"rows() of {root} must give a dict of cells for each image, by their names, as "
                f'{{"image": "1.jpg", "label": "cat"}}, but gave {show(cells)} (number {number}).'
            )
        yield _make_row(root, number, cells, [columns.get(role) or role for role in _IMAGES])


def _make_row(root: str, number: int, cells: Mapping[str, Any], of_images: list[str]) -> Row:
    """The cells, with images for their names, or for references that tell sizes and times, too."""
    given = {name: cells[name] for name in of_images if not _is_left_out(cells.get(name))}
    try:
        embedded = {name: _hold(root, number, name, cell) for name, cell in given.items()}
        others = [name for name in cells if name not in of_images]
        named_cells = {plain_cell(name, name): plain_cell(name, cells[name]) for name in others}
    except WrongItem as error:
        return Row(number, {}, str(error))
    named = {NAME: embedded[of_images[0]].location.inside} if of_images[0] in embedded else {}
    return Row(number, {**named, **named_cells, **embedded})


def _is_left_out(cell: Any) -> bool:
    """Whether a row has no such image. Somebody's own cell is not compared: an array may be."""
    return cell is None or (isinstance(cell, str) and not cell)


def _hold(root: str, number: int, name: str, cell: Any) -> EmbeddedImage:
    """An image or a mask; raises WrongItem if a cell is invalid."""
    ref = ImageRef(cell, 0, 0) if isinstance(cell, str) else cell
    if not isinstance(ref, ImageRef):
        raise WrongItem(
            f"{name!r} must be a name, of which read() gives the image, or an ImageRef, got "
            f"{tell(cell)}"
        )
    if wrong := explain_wrong(ref):
        raise WrongItem(f"{name!r} must have {wrong}")
    location = Location(root, _KIND, number, 1, plain_cell(name, ref.path))
    return EmbeddedImage(location, ref.size_bytes, ref.modified_ns)


@dataclasses.dataclass(frozen=True)
class OwnRows(Table):
    """The rows, whose images and masks the user's `read` gives."""

    def reference(self, row_name: str, split: str | None, row: Row) -> ImageRef:
        """The image of a row, see `Table.reference`; its mask has a name of its own."""
        ref = super().reference(row_name, split, row)
        if ref.mask is None or ref.mask.location is None:
            return ref
        mask = dataclasses.replace(ref.mask, path=ref.mask.location.inside)
        return dataclasses.replace(ref, mask=mask)

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """The bytes of the user's `read(name, most_bytes)`; see `Source.read`."""
        assert ref.location is not None  # Rows name nothing else.
        return _open(self.path).read(ref.location.inside, most_bytes)

    def _look_up(self, path: str, annotations: Annotations) -> ImageRef:
        """A path in a cell that is called otherwise is not a name that `read` is asked for."""
        column = self.options.columns["image"]
        message = (
            f"{annotations.row}: the name that read() takes must be called 'image', not {column!r}"
        )
        return ImageRef(path, 0, 0, "no_path", message, annotations)


@functools.lru_cache(maxsize=4)
def _open(root: str) -> OwnObject:
    return OwnObject(root, "rows")


OWN_ROWS = SourceKind(
    name="rows of your own",
    prefix=_PREFIX,
    files=lambda images: [(images, None)],
    folder=lambda images: images,
    rows=read_own_rows,
    open=lambda images, options: OwnRows(images, options),
    has_parts=False,
)
