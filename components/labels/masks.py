"""One class a pixel: masks.

Of a mask's file, gray levels, palette indices or colours become class ids, checked one by one.
"""

import collections
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import cv2
import numpy as np
import pyarrow as pa
import pydantic

from image_pipeline.components.augment.options import Mixup
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.record import IGNORED, MASK, MASK_COLUMN
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.mask_file import BAD_MASK, read_levels
from image_pipeline.components.images.prepare import PreparedImage, nearest_indices
from image_pipeline.components.labels.kind import WEIGHTED, Fitted, LabelKind, Tensors
from image_pipeline.components.options import Options
from image_pipeline.components.views.options import ViewOptions

# Masks are flat: run lengths take a quarter of the time of zlib's level 6, and a third more room.
_PNG_PARAMETERS = (cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE)

Value = Annotated[int, pydantic.Field(ge=0, le=65_535)] | str


class MaskOptions(Options):
    """Where masks are, and which class each of their levels or colours is."""

    images: str | None = None
    """Of a folder: the images' paths in it, such as `images/{key}.*`. `{key}`, or any other name
    in braces, stands for what an image and its mask have in common; `*` for anything in a name."""
    masks: str | None = None
    """Of a folder: the masks' paths in it, such as `masks/{key}.png`, with the same names in
    braces. A file that could be both is a mask."""
    classes: tuple[str, ...] | dict[str, Value | tuple[Value, ...]] | None = None
    """The classes in the order of their ids, 0, 1, …: a list of names, if levels are these ids; or
    `{sky: 3, road: [7, 8]}` by gray level or palette index; or `{sky: "#8080ff"}` by colour. Masks
    with anything else are quarantined. None: levels are ids, whatever they are."""
    ignored: tuple[Value, ...] | None = None
    """Levels or colours of pixels that belong to no class; they are stored as 255. None: 255, if it
    is not a class and there are no colours."""

    @pydantic.field_validator("classes")
    @classmethod
    def _check_classes(cls, classes: object) -> object:
        if classes is not None and not 0 < len(classes) <= IGNORED:  # type: ignore[arg-type]
            raise ValueError(f"masks.classes must be 1 to {IGNORED} classes, got {len(classes)}.")  # type: ignore[arg-type]
        if len(set(classes or ())) < len(classes or ()):  # type: ignore[call-overload, arg-type]
            raise ValueError(
                f"masks.classes must be different names, got {classes}; keep one of each."
            )
        return classes

    @pydantic.model_validator(mode="after")
    def _check(self) -> "MaskOptions":
        if (self.images is None) != (self.masks is None):
            raise ValueError(
                "masks.images and masks.masks belong together: give both for a folder, such as "
                "images/{key}.* and masks/{key}.png, or neither for a table."
            )
        listed = [value for values in self._values().values() for value in values]
        listed += self.ignored or ()
        kinds = {isinstance(value, str) for value in listed}
        if len(kinds) > 1:
            raise ValueError(
                "masks.classes and masks.ignored must all be levels or all be colours, got "
                f"{', '.join(map(repr, listed))}; write colours as '#rrggbb'."
            )
        if self.classes is None and str in map(type, listed):
            raise ValueError(
                f"masks.ignored names the colour {listed[0]!r}, but no class has a colour; set "
                "masks.classes={sky: '#8080ff', …}, or give levels."
            )
        for value in listed:
            if isinstance(value, str) and not re.fullmatch("#[0-9a-fA-F]{6}", value):
                raise ValueError(f"a mask's colour must be '#rrggbb', got {value!r}.")
        codes = [_code(value) for value in listed]
        if twice := [
            each for each, code in zip(listed, codes, strict=True) if codes.count(code) > 1
        ]:
            raise ValueError(f"masks.classes and masks.ignored name {twice[0]!r} twice; keep one.")
        return self

    def _values(self) -> Mapping[str, tuple[Value, ...]]:
        if not isinstance(self.classes, dict):
            return {name: (number,) for number, name in enumerate(self.classes or ())}
        return {n: v if isinstance(v, tuple) else (v,) for n, v in self.classes.items()}

    @property
    def names(self) -> tuple[str, ...] | None:
        """The classes in the order of their ids; None if they were not named."""
        return None if self.classes is None else tuple(self.classes)

    @property
    def has_colors(self) -> bool:
        """Whether colours stand for classes."""
        return any(isinstance(v, str) for values in self._values().values() for v in values)

    def table(self) -> dict[int, int]:
        """The id of each level, or of each colour as red · 65536 + green · 256 + blue."""
        if self.classes is None:
            table = {level: level for level in range(IGNORED)}
        else:
            table = {_code(v): n for n, vs in enumerate(self._values().values()) for v in vs}
        ignored: Iterable[Value] = () if self.has_colors else (IGNORED,)
        for value in ignored if self.ignored is None else self.ignored:
            if self.ignored is not None or _code(value) not in table:
                table[_code(value)] = IGNORED
        return table


def prepare_mask(data: bytes, image: PreparedImage, options: MaskOptions) -> Fitted:
    """Turns a mask file into class ids of the stored image's size.

    Args:
      data: the mask's whole file: PNG, TIFF, BMP, GIF or `.npy`.
      image: the image that it is the mask of.
      options: which level or colour is which class.

    Returns:
      A gray PNG, stored before the image; and which ids occur, with how many pixels each.

    Raises:
      BadImage: if it cannot be read, is lossy, has another size than its image, or shows a level
        or colour that is not a class.
    """
    levels = read_levels(data, image, options.has_colors)
    table = options.table()
    _check_values(levels, table, options.has_colors)
    ids = _look_up(levels, table)
    if ids.shape != (image.height, image.width):
        rows = nearest_indices(ids.shape[0], image.height)
        columns = nearest_indices(ids.shape[1], image.width)
        ids = np.ascontiguousarray(ids[rows[:, None], columns])
    counts = _count_levels(ids)
    found = np.flatnonzero(counts)
    encoded = encode_mask(ids)
    row = {
        "mask_sha256": hashlib.sha256(encoded).digest(),
        "mask_length": len(encoded),
        "mask_ids": found.tolist(),
        "mask_pixels": counts[found].tolist(),
    }
    return Fitted(row=row, stored=encoded)


def encode_mask(ids: np.ndarray) -> bytes:
    """Class ids, uint8 [height, width], as a gray PNG."""
    return cv2.imencode(".png", ids, _PNG_PARAMETERS)[1].tobytes()


def _check_values(levels: np.ndarray, table: Mapping[int, int], are_colors: bool) -> None:
    """Refuses a mask with a level or colour code that is not in the table."""
    if levels.dtype == np.uint8:  # The most usual ones, and quicker to count than to look up.
        shown = np.flatnonzero(_count_levels(levels))
        unknown = set(shown.tolist()) - table.keys()
        wrong = np.isin(levels, list(unknown)) if unknown else None
    else:
        wrong = ~np.isin(levels, list(table))
    if wrong is not None and wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        value = int(levels[row, column])
        named = f"the colour '#{value:06x}'" if are_colors else f"the level {value}"
        raise BadImage(
            BAD_MASK,
            f"has {named} at row {row}, column {column}, which is neither in ingest.masks.classes "
            "nor in ingest.masks.ignored",
        )


def _look_up(levels: np.ndarray, table: Mapping[int, int]) -> np.ndarray:
    """The class ids of levels or colours, all of which the table has: uint8 [height, width]."""
    if levels.dtype == np.uint8:
        return cv2.LUT(levels, np.array([table.get(n, IGNORED) for n in range(256)], np.uint8))
    keys = np.array(sorted(table))
    return np.array([table[key] for key in keys.tolist()], np.uint8)[np.searchsorted(keys, levels)]


def _count_levels(levels: np.ndarray) -> np.ndarray:
    """How many pixels each of the levels 0 to 255 has: int64 [256]."""
    return np.bincount(np.ravel(levels), minlength=256)


def _code(value: Value) -> int:
    return int(value[1:], 16) if isinstance(value, str) else value


def check_ids(ids: set[int], options: MaskOptions | None) -> None:
    """Refuses masks of 0 and 255 only, unless the options say whether 255 is a class."""
    is_stated = options is not None and (options.classes or options.ignored)
    if not is_stated and ids in ({0, IGNORED}, {IGNORED}):
        raise UserError(
            "The masks' only levels are 0 and 255, and 255 usually means no class. If it is one, "
            "set ingest.masks.classes={background: 0, foreground: 255}; if not, set "
            "ingest.masks.ignored=[255]."
        )


class Masks(LabelKind):
    """Each record has a gray PNG of class ids, of its image's size."""

    name = "masks"
    another = "another mask"
    columns = (MASK_COLUMN,)
    counted = "mask_pixels"
    moves: ClassVar[Mapping[str, str]] = {"masks": MASK}
    unmixed = (
        (Mixup,),
        "mixup, which blends the labels of two images, and class ids of pixels cannot be blended; "
        "leave it out, or take cutmix, which cuts masks as images.",
    )
    unweighted = WEIGHTED.format("masks have a class for each pixel")
    unsmoothed = "masks are compared pixel by pixel"

    def fit(self, cell: bytes, image: PreparedImage, options: MaskOptions | None) -> Fitted:
        """The mask of a whole file; as `prepare_mask`."""
        return prepare_mask(cell, image, options or MaskOptions())

    def count(self, rows: pa.Table) -> dict[str, Any]:
        """How many pixels each id has; ids as text, as JSON has them."""
        counts: collections.Counter[int] = collections.Counter()
        columns = (rows[name].to_pylist() for name in ("mask_ids", "mask_pixels"))
        for ids, pixels in zip(*columns, strict=True):
            counts.update(dict(zip(ids, pixels, strict=True)))
        return {"mask_pixels": {str(each): counts[each] for each in sorted(counts)}}

    def add_up(self, counted: Sequence[dict[str, Any]], options: Any) -> dict[str, Any]:
        """`mask_pixels`, by ascending ids."""
        counts: collections.Counter[str] = collections.Counter()
        for each in counted:
            counts.update(each["mask_pixels"])
        return {"mask_pixels": {each: counts[each] for each in sorted(counts, key=int)}}

    def describe(self, names: Sequence[str], counts: Mapping[str, int]) -> dict[str, Any]:
        """The classes, how many pixels each has, and how many are of none."""
        return {
            "mask_classes": list(names),
            "mask_pixels": [counts.get(str(number), 0) for number in range(len(names))],
            "ignored_pixels": counts.get(str(IGNORED), 0),
        }

    def shapes(self, view: ViewOptions, most: int | None) -> dict[str, list[int | None]]:
        """A class id for each pixel of the view."""
        return {MASK: [view.height_px, view.width_px, 1]}

    def truth(self, batch: Tensors, views: Any, min_visible: float) -> Any:
        """Int32 [batch, height, width]."""
        import tensorflow as tf

        return tf.cast(tf.squeeze(views.masks, -1), tf.int32)

    def class_names(self, manifest: Manifest) -> tuple[str, ...]:
        """As `ingest.masks.classes` has them; else their ids, up to the greatest that occurs."""
        if (named := (manifest.options.get("masks") or {}).get("classes")) is not None:
            return tuple(named)
        splits = manifest.splits.values()
        found = {int(each) for split in splits for each in split.mask_pixels or {}}
        return tuple(map(str, range(max(found - {IGNORED}, default=-1) + 1)))


MASKS: LabelKind = Masks()
