"""A mask file to class ids: gray levels, palette indices or colours, checked one by one."""

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import cv2
import numpy as np
import pydantic
from PIL import Image, ImageOps

from image_pipeline.components.dataset.record import IGNORED
from image_pipeline.components.images.bad_image import BadImage, call_decoder
from image_pipeline.components.images.prepare import PreparedImage
from image_pipeline.components.images.resize import nearest_places
from image_pipeline.components.options import Options

BAD_MASK, MASK_SIZE = "bad_mask", "mask_size"

_LOSSLESS = ("PNG", "TIFF", "BMP", "GIF", "PPM")
_UNKNOWN = -1
# zlib's level: masks are flat, and take next to no room at any.
_PNG_COMPRESSION = 6

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
    is no class and there are no colours."""

    @pydantic.field_validator("classes")
    @classmethod
    def _check_classes(cls, classes: object) -> object:
        if classes is not None and not 0 < len(classes) <= IGNORED:  # type: ignore[arg-type]
            raise ValueError(f"masks.classes must be 1 to {IGNORED} classes, got {len(classes)}.")  # type: ignore[arg-type]
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
        """Whether classes are told by colours."""
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


@dataclass(frozen=True, slots=True)
class PreparedMask:
    """A mask as it is stored.

    Attributes:
      encoded: a gray PNG of class ids, of the stored image's size.
      ids: those that occur, ascending.
      pixels: how many pixels each of them has.
    """

    encoded: bytes
    ids: tuple[int, ...]
    pixels: tuple[int, ...]


def prepare_mask(data: bytes, image: PreparedImage, options: MaskOptions) -> PreparedMask:
    """Turns a mask file into class ids of the stored image's size.

    Args:
      data: the mask's whole file: PNG, TIFF, BMP, GIF or PPM.
      image: the image that it is the mask of.
      options: which level or colour is which class.

    Raises:
      BadImage: if it cannot be read, is lossy, has another size than its image, or shows a level
        or colour that is no class.
    """
    levels = _read_levels(data, image, options.has_colors)
    ids = _look_up(levels, options)
    rows = nearest_places(ids.shape[0], image.height)
    columns = nearest_places(ids.shape[1], image.width)
    stored = np.ascontiguousarray(ids[rows[:, None], columns])
    counts = np.bincount(stored.reshape(-1), minlength=IGNORED + 1)
    found = np.flatnonzero(counts)
    return PreparedMask(encode_mask(stored), tuple(found.tolist()), tuple(counts[found].tolist()))


def encode_mask(ids: np.ndarray) -> bytes:
    """Class ids, uint8 [height, width], as a gray PNG."""
    return cv2.imencode(".png", ids, [cv2.IMWRITE_PNG_COMPRESSION, _PNG_COMPRESSION])[1].tobytes()


def _read_levels(data: bytes, image: PreparedImage, as_colors: bool) -> np.ndarray:
    """Levels, uint8 or wider [height, width], or colour codes, int32 [height, width]; upright."""
    opened = call_decoder(Image.open, io.BytesIO(data))
    if opened.format not in _LOSSLESS:
        raise BadImage(
            BAD_MASK,
            f"{opened.format} may blur class ids; save masks as PNG",
        )
    if getattr(opened, "n_frames", 1) > 1:
        raise BadImage(BAD_MASK, f"has {opened.n_frames} frames, but a mask is one image")
    turned = image.orientation > 4
    sides = (image.source_width, image.source_height)
    upright = sides[::-1] if turned else sides
    mask_turned = call_decoder(opened.getexif).get(0x0112, 1) in (5, 6, 7, 8)
    if (opened.size[::-1] if mask_turned else opened.size) != upright:
        hint = f", turned by its EXIF orientation {image.orientation}," if turned else ""
        raise BadImage(
            MASK_SIZE,
            f"has {opened.width}x{opened.height} px, but its image{hint} has "
            f"{upright[0]}x{upright[1]}",
        )
    pixels = call_decoder(ImageOps.exif_transpose, opened)
    if opened.format == "PNG" and data[25:26] == b"\x00" and data[24] < 8:  # Pillow scales these.
        pixels = call_decoder(pixels.convert, "L").point(_unscale(data[24]))
    return _colors(pixels) if as_colors else _levels(pixels)


def _unscale(bits: int) -> list[int]:
    """From gray levels 0 to 255 to the samples of so many bits that a PNG has."""
    step = 255 // (2**bits - 1)
    return [level // step for level in range(256)]


def _colors(pixels: Image.Image) -> np.ndarray:
    _check_opaque(pixels)
    rgb = np.asarray(call_decoder(pixels.convert, "RGB"), np.int32)
    return rgb[..., 0] << 16 | rgb[..., 1] << 8 | rgb[..., 2]


def _levels(pixels: Image.Image) -> np.ndarray:
    _check_opaque(pixels)
    if pixels.mode in ("1", "L", "P") or pixels.mode.startswith("I"):
        return call_decoder(np.asarray, pixels).astype(np.int64)
    if pixels.mode not in ("RGB", "RGBA", "LA"):
        raise BadImage(BAD_MASK, f"pixels of Pillow's mode {pixels.mode} are no class ids")
    channels = np.asarray(call_decoder(pixels.convert, "RGB"))
    if (channels != channels[..., :1]).any():
        raise BadImage(
            BAD_MASK, "is in colour; name its colours, as in ingest.masks.classes={sky: '#8080ff'}"
        )
    return channels[..., 0]


def _check_opaque(pixels: Image.Image) -> None:
    has_alpha = pixels.mode in ("RGBA", "LA", "PA")
    if has_alpha and np.asarray(call_decoder(pixels.getchannel, "A")).min() < 255:
        raise BadImage(BAD_MASK, "has transparent pixels, which are of no class; save it opaque")


def _look_up(levels: np.ndarray, options: MaskOptions) -> np.ndarray:
    """The class ids of levels or colour codes: uint8 [height, width]."""
    table = options.table()
    keys = np.array(sorted(table))
    ids = np.array([table[key] for key in keys.tolist()], np.uint8)
    places = np.minimum(np.searchsorted(keys, levels), len(keys) - 1)
    unknown = keys[places] != levels
    if unknown.any():
        row, column = np.argwhere(unknown)[0].tolist()
        value = int(levels[row, column])
        named = f"the colour '#{value:06x}'" if options.has_colors else f"the level {value}"
        raise BadImage(
            BAD_MASK,
            f"has {named} at row {row}, column {column}, which is neither in ingest.masks.classes "
            "nor in ingest.masks.ignored",
        )
    return ids[places]


def _code(value: Value) -> int:
    return int(value[1:], 16) if isinstance(value, str) else value
