"""What becomes of every image before it is written.

Cameras and microscopes fill 10, 12 or 14 of a file's 16 bits: where all that 16 bits can hold
becomes 0 to 255, theirs fill a few levels only. So `depth` says which values become 0 and 255.
"""

import functools
import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pydantic

from image_pipeline.components.dataset.record import PixelType
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.options import Options, leave_out_unset
from image_pipeline.components.rules import Rule

LEVELS = 2**16
"""How many values 16 bits have."""


# Words for some of these options.
_NAMED: dict[str, dict[str, Any]] = {"shift": {}, "maximum": {"high": "100%"}}
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,15})?) ?%")


class DepthOptions(Options):
    """Which values of images of 16 bits become 0 and 255, where 8 are stored.

    Those between become what lies between, the same for all images and channels; images of 8 bits
    stay as they are. By default, all 65,536 values are (`depth: shift` says the same): of the 256
    levels, images of 12 bits fill 17 then. `depth: maximum` says `high: 100%`. JPEG XL and DICOM
    say how many bits they have, all of which are the default; of DICOM, what has a window is shown
    by it, and values are counted from the darkest that can be stored.
    """

    low: int | str = 0
    """The value that becomes 0, as do those below: a whole number up to 65,535; or, as `0.1%`, the
    least value up to which so many percent of all values lie."""

    high: int | str = LEVELS - 1
    """The value that becomes 255, as do those above, written in the same way: `4095` for images of
    12 bits, `100%` for the largest value of all. Percents are found exactly, among the images that
    are stored, in a pass of its own, which decodes those of 16 bits once more."""

    found: tuple[int, int] | None = None
    """What the two are, if one is in percent. Ingest fills it in; models are served with it."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _read_name(cls, given: Any) -> Any:
        if isinstance(given, (dict, cls)):
            return given
        if given not in (names := list(_NAMED)):
            raise ValueError(f"must be {', '.join(names)} or {{low: …, high: …}}, got {given!r}.")
        return _NAMED[given]

    @pydantic.field_validator("low", "high", mode="before")
    @classmethod
    def _read_level(cls, given: Any) -> int | str:
        if type(given) is int and 0 <= given < LEVELS:
            return given
        percent = _PERCENT.fullmatch(given) if isinstance(given, str) else None
        if percent is None or float(percent[1]) > 100:
            raise ValueError(
                f"must be a whole number from 0 to {LEVELS - 1:,} or a percentage such as 99.9%, "
                f"got {given!r}."
            )
        return f"{percent[1]}%"

    rules = (
        Rule(
            lambda options: options.found and not {str} & {type(options.low), type(options.high)},
            "found is what percents come to, but low and high are numbers; leave it out.",
        ),
        Rule(
            lambda options: _find_crossed(options),
            "low must be below high, got {found[0]} and {found[1]}; for example "
            "{{low: 0, high: 4095}} or {{low: 0.1%, high: 99.9%}}.",
        ),
    )

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict:
        return leave_out_unset(dump(self), self, ("found",))

    @property
    def must_be_found(self) -> bool:
        """Whether the images have to be read to know the two values."""
        return self.found is None and any(isinstance(n, str) for n in (self.low, self.high))

    @property
    def levels(self) -> "Levels | None":
        """How 16 bits become 8, which must be known by then; None for all values."""
        if (self.low, self.high) == (0, LEVELS - 1):
            return None
        low, high = self.low, self.high
        if isinstance(low, str) or isinstance(high, str):
            assert self.found is not None
            return Levels(*self.found)
        return Levels(low, high)


def _find_crossed(options: DepthOptions) -> tuple[int | str, int | str] | None:
    """Values of which the first is not below the second, if both are numbers or percents."""
    for low, high in filter(None, [(options.low, options.high), options.found]):
        numbers = [Fraction(str(level).rstrip("%")) for level in (low, high)]
        if type(low) is type(high) and numbers[0] >= numbers[1]:
            return low, high
    return None


_ColorLevel = pydantic.conint(ge=0, le=255)
Encoding = Literal["jpeg", "png", "raw", "original"]


class PrepareOptions(Options):
    """What every image becomes before it is written."""

    resize: Literal["shorter_side", "longer_side", "exact", "none"] = "shorter_side"
    """Which side becomes `size_px`; the other keeps the aspect ratio. `exact` makes both sides
    `size_px` and distorts, as exported models then do with the files that they are asked about;
    `none` keeps the size."""

    size_px: pydantic.PositiveInt = 256
    """Target length in pixels of the side that `resize` names."""

    enlarge: bool = False
    """Whether smaller images are enlarged to `size_px`. Otherwise they are kept as they are; with
    `exact`, those of which either side is smaller."""

    encoding: Encoding = "jpeg"
    """How pixels are stored. `png` is lossless and about 5 times larger than `jpeg`; `raw` is
    row-major uint8, larger still. `original` keeps the bytes of upright 8-bit JPEGs and PNGs that
    need no conversion, including their metadata (such as GPS positions); everything else is
    re-encoded, as PNG where the source is lossless, as JPEG otherwise. All other encodings
    remove all metadata."""

    jpeg_quality: int = pydantic.Field(default=90, ge=1, le=100)
    """JPEG quality, 1 to 100; higher is larger. Chroma is stored at half resolution (4:2:0)."""

    color: Literal["rgb", "gray"] = "rgb"
    """Channels: 3 for `rgb`, 1 for `gray`. Gray images become `rgb` by repetition."""

    dtype: PixelType = "uint8"
    """Type of the stored values. With `uint8`, images of 16 bits become 8 as `depth` says. With the
    others, which `encoding: raw` stores, every value stays as it is; images of another type are
    refused, except that `float32` also reads float64 (rounded) and int16 and int8 (exactly). Colour
    profiles are not applied. All but `uint8` is read as float32 by analysis, training and serving.
    """

    depth: DepthOptions = DepthOptions()

    channels: pydantic.PositiveInt | None = pydantic.Field(default=None, le=255)
    """Number of channels that every image has to have, which are stored as they are, whatever they
    mean (`color` does not matter then); needs `encoding: raw`. None: gray or RGB, as `color` says.
    """

    alpha_background: tuple[_ColorLevel, _ColorLevel, _ColorLevel] = (255, 255, 255)  # type: ignore[valid-type]
    """RGB colour, 0 to 255, on which transparent images are laid."""

    min_side_px: pydantic.PositiveInt = 1
    """Images with a side of fewer pixels are refused."""

    max_pixels: int = pydantic.Field(default=178_956_970, ge=1, le=2**30)
    """Images whose header declares more pixels are refused before decoding, as decompression
    bombs. The default is where Pillow refuses; 2**30 is OpenCV's own limit. The resized image is
    held to it too."""

    max_file_bytes: pydantic.PositiveInt = 256 * 1024 * 1024
    """Files of more bytes are refused unread."""

    sound: SoundOptions | None = None
    """WAV and FLAC files become such pictures. None: they are not images."""

    rules = (
        Rule(
            lambda options: options.is_deep and options.encoding != "raw" and _deep(options),
            "{found} needs encoding=raw, got {options.encoding}; set it, too.",
        ),
        Rule(
            lambda options: options.is_deep and options.sound is not None,
            "sound draws uint8 pictures; leave out dtype and channels.",
        ),
        Rule(
            lambda options: options.is_deep and options.depth != DepthOptions() and _deep(options),
            "depth makes 8 bits of 16, but {found} keeps every value as it is; leave out one of "
            "them.",
        ),
    )

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict:
        return leave_out_unset(dump(self), self, ("dtype", "depth", "channels", "sound"))

    @property
    def is_deep(self) -> bool:
        """Whether pixels are other than 8-bit gray or RGB."""
        return self.dtype != "uint8" or self.channels is not None

    def choose_size(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) in pixels that an upright image of so many is resized to."""
        size_px = self.size_px
        reference_px = max(height, width) if self.resize == "longer_side" else min(height, width)
        if self.resize == "none" or (reference_px < size_px and not self.enlarge):
            return height, width
        if self.resize == "exact":
            return size_px, size_px
        # In integers, rounded half up: no side depends on how a float was rounded.
        return tuple(  # type: ignore[return-value]
            max(1, (2 * side * size_px + reference_px) // (2 * reference_px))
            for side in (height, width)
        )


@dataclass(frozen=True, slots=True)
class Levels:
    """How values of 16 bits become 8: `low` becomes 0 and `high` 255.

    Attributes:
      low, high: as of `DepthOptions`.
    """

    low: int = 0
    high: int = LEVELS - 1

    def narrow(self, color: np.ndarray, alpha: np.ndarray | None = None) -> np.ndarray:
        """Rounds half up to the nearest of 256 levels, the same for all channels.

        With all of 16 bits, that is `(color + 128) // 257`; in general, in whole numbers,

            span = high - low
            ((np.clip(color.astype(np.int64), low, high) - low) * 510 + span) // (2 * span)

        Args:
          color: uint16 [height, width(, channels)].
          alpha: [height, width], 0 where it is transparent; None for opaque.

        Returns:
          uint8 of the shape of `color`.
        """
        return _make_table(self.low, self.high)[color]


@dataclass(frozen=True, slots=True)
class CountedLevels(Levels):
    """As `Levels`, and counts what it is given.

    Attributes:
      counts: int64 [65536], how often colours have each value where they are not transparent.
    """

    counts: np.ndarray = field(default_factory=lambda: np.zeros(LEVELS, np.int64))

    def narrow(self, color: np.ndarray, alpha: np.ndarray | None = None) -> np.ndarray:
        """See `Levels.narrow`."""
        seen = color if alpha is None else color[alpha > 0]
        np.add(self.counts, np.bincount(seen.ravel(), minlength=LEVELS), out=self.counts)
        return Levels.narrow(self, color, alpha)


ALL_LEVELS = Levels()


@functools.lru_cache(maxsize=8)  # A data set has one.
def _make_table(low: int, high: int) -> np.ndarray:
    """What each value of 16 bits becomes: uint8 [65536]."""
    values, span = np.arange(LEVELS), high - low
    narrowed = ((np.clip(values, low, high) - low) * 510 + span) // (2 * span)
    return narrowed.astype(np.uint8)


def find_levels(counts: np.ndarray, asked: DepthOptions) -> DepthOptions:
    """The options with the two values that they come to.

    Args:
      counts: int64 [65536], how often each value is there. Where there is none, percents mean all
        of 16 bits.
      asked: the least value up to which a percentage lies is `np.percentile`'s, by the method
        `inverted_cdf`.

    Raises:
      UserError: if the one that is found is on the wrong side of the other.
    """

    def find(asked_level: int | str, of_none: int) -> int:
        if isinstance(asked_level, int):
            return asked_level
        return _find_percentile(counts, asked_level) if counts.any() else of_none

    low, high = find(asked.low, 0), find(asked.high, LEVELS - 1)
    if low == high and (low == 0 or type(asked.low) is type(asked.high)):
        # All of these values are one, which becomes 0.
        low = min(low, LEVELS - 2)
        high = low + 1
    if low >= high:
        raise UserError(
            f"ingest.prepare.depth={{low: {asked.low}, high: {asked.high}}} comes to {low:,} and "
            f"{high:,} in these images, but low must be below high; give other numbers."
        )
    return asked.model_copy(update={"found": (low, high)})


def _find_percentile(counts: np.ndarray, percent: str) -> int:
    """The least value up to which so many percent of all lie, exactly."""
    up_to = counts.cumsum()
    rank = math.ceil(Fraction(percent.rstrip("%")) / 100 * int(up_to[-1]))
    return int(np.searchsorted(up_to, max(1, rank)))


def _deep(options: PrepareOptions) -> str:
    """Which option asks for other than 8-bit gray or RGB."""
    is_typed = options.dtype != "uint8"
    return f"dtype={options.dtype}" if is_typed else f"channels={options.channels}"
