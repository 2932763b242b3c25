"""One image in, one image out: check, decode, orient, resize, encode. No Beam, no TensorFlow."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pydantic

from image_pipeline.components.dataset.record import PixelType, name_raw
from image_pipeline.components.images.bad_image import (
    REASONS,
    TOO_MANY_PIXELS,
    BadImage,
)
from image_pipeline.components.images.color import convert_channels, convert_to_srgb
from image_pipeline.components.images.decode import DecodedImage, decode_image
from image_pipeline.components.images.deep import (
    count_channels,
    decode_deep,
    resize_deep,
    store_raw,
)
from image_pipeline.components.images.depth import DepthOptions, Levels
from image_pipeline.components.images.encode import encode
from image_pipeline.components.images.resize import resize
from image_pipeline.components.images.spectrogram import SoundOptions
from image_pipeline.components.options import Options, leave_out_unset

__all__ = ["REASONS", "BadImage", "Encoding", "PrepareOptions", "PreparedImage", "prepare_image"]

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
    encoded anew, as PNG where the source is lossless, as JPEG otherwise. All other encodings
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
    """WAV and FLAC files become such pictures. None: they are no images."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> "PrepareOptions":
        if self.is_deep and self.encoding != "raw":
            named = f"dtype={self.dtype}" if self.dtype != "uint8" else f"channels={self.channels}"
            raise ValueError(f"{named} needs encoding=raw, got {self.encoding}; set it, too.")
        if self.is_deep and self.sound is not None:
            raise ValueError("sound draws uint8 pictures; leave out dtype and channels.")
        if self.is_deep and self.depth != DepthOptions():
            named = f"dtype={self.dtype}" if self.dtype != "uint8" else f"channels={self.channels}"
            raise ValueError(
                f"depth makes 8 bits of 16, but {named} keeps every value as it is; leave out one "
                "of them."
            )
        return self

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict:
        return leave_out_unset(dump(self), self, ("dtype", "depth", "channels", "sound"))

    @property
    def is_deep(self) -> bool:
        """Whether pixels are other than 8-bit gray or RGB."""
        return self.dtype != "uint8" or self.channels is not None


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """An image as it is stored, and where it came from. Sides in pixels."""

    encoded: bytes
    format: str
    """`jpeg`, `png`, `raw`, or `raw_uint16`, `raw_float16`, `raw_float32`."""
    height: int
    width: int
    channels: int
    source_format: str
    """`jpeg`, `png`, `webp`, `tiff`, `bmp`, `gif`, `avif`, `heic`, `jxl`, `dicom`, `npy`, `wav` or
    `flac`, by content."""
    source_height: int
    """From the file's header, before orientation."""
    source_width: int
    orientation: int
    """EXIF orientation of the file, 1 to 8; already applied."""
    notes: tuple[str, ...]
    """What was unusual: `frames:<n>` (the first was used; of a PNG the one that viewers of still
    images show), `icc` (profile converted), `icc_broken`, `exif_broken`, `xmp_orientation:<n>` and
    `raw_exif_orientation:<n>` (a turn that only XMP or ImageMagick's text names, not applied, as
    browsers do not), `alpha`, `16bit`, `10bit` and `12bit` (of which 8 are kept), `window` (of a
    DICOM file, applied), `white_is_zero` (a DICOM file's lowest value, kept as it is), `cmyk`,
    `arithmetic`, `extra_bytes` (a JPEG that goes on where its pixels have ended: a camera's habit,
    or damage), `missing_scans` (a progressive JPEG without its last details), `icc_unused` (a
    profile that was not applied: values are kept as they are), `float64` (rounded to float32),
    `gray` and `color` (stored as the other). Of a sound: `cut` and `padded`, to `duration_s`;
    `silent`."""


def prepare_image(
    data: bytes, options: PrepareOptions, levels: Levels | None = None
) -> PreparedImage:
    """Turns the bytes of any image file into the form in which it is stored.

    Thread-safe; the same bytes and options always give the same result.

    Args:
      data: a whole file.
      options: what it becomes.
      levels: how 16 bits become 8, in place of `options.depth`.

    Returns:
      The stored image, upright and in sRGB, without metadata (but see `encoding="original"`).

    Raises:
      BadImage: the file is not a complete, readable image within the limits of `options`.
    """
    if options.is_deep:
        return _prepare_deep(data, options)
    decoded = decode_image(
        data,
        gray=options.color == "gray",
        alpha_background=options.alpha_background,
        min_side_px=options.min_side_px,
        max_pixels=options.max_pixels,
        max_file_bytes=options.max_file_bytes,
        target_size=lambda height, width: _target_size(height, width, options),
        sound=options.sound,
        levels=levels or options.depth.levels,
    )
    pixels, profile_notes = _convert(decoded, options)
    notes = decoded.notes + profile_notes
    encoded, stored_format = _store(data, decoded, notes, pixels, options)
    return PreparedImage(
        encoded=encoded,
        format=stored_format,
        height=pixels.shape[0],
        width=pixels.shape[1],
        channels=count_channels(pixels),
        source_format=decoded.header.source_format,
        source_height=decoded.header.height,
        source_width=decoded.header.width,
        orientation=decoded.header.orientation,
        notes=notes + _note_channels(decoded.header.channels, count_channels(pixels)),
    )


def _note_channels(of_source: int, stored: int) -> tuple[str, ...]:
    """What the index would no longer tell: a source of gray, or of colour, stored as the other."""
    if of_source == stored:
        return ()
    return ("gray",) if of_source == 1 else ("color",)


def _prepare_deep(data: bytes, options: PrepareOptions) -> PreparedImage:
    """As `prepare_image`, for pixels other than 8-bit gray or RGB."""
    decoded = decode_deep(
        data,
        dtype=options.dtype,
        channels=options.channels,
        gray=options.color == "gray",
        alpha_background=options.alpha_background,
        min_side_px=options.min_side_px,
        max_pixels=options.max_pixels,
        max_file_bytes=options.max_file_bytes,
    )
    height, width = decoded.pixels.shape[:2]
    target = _target_size(height, width, options)
    _check_target(target, options.max_pixels)
    pixels = resize_deep(decoded.pixels, target)
    return PreparedImage(
        encoded=store_raw(pixels),
        format=name_raw(options.dtype).decode(),
        height=pixels.shape[0],
        width=pixels.shape[1],
        channels=count_channels(pixels),
        source_format=decoded.header.source_format,
        source_height=decoded.header.height,
        source_width=decoded.header.width,
        orientation=decoded.header.orientation,
        notes=decoded.notes,
    )


def _convert(decoded: DecodedImage, options: PrepareOptions) -> tuple[np.ndarray, tuple[str, ...]]:
    """Resizes, then converts colours, which costs more per pixel than decoding."""
    header = decoded.header
    size = (header.height, header.width)
    upright_size = size if header.orientation <= 4 else size[::-1]
    resized = _resize(decoded.pixels, _target_size(*upright_size, options), options.max_pixels)
    srgb, notes = convert_to_srgb(resized, decoded.icc)
    return convert_channels(srgb, gray=options.color == "gray"), notes


def _target_size(height: int, width: int, options: PrepareOptions) -> tuple[int, int]:
    """Returns the (height, width) in pixels that `options` ask for."""
    size_px = options.size_px
    reference_px = max(height, width) if options.resize == "longer_side" else min(height, width)
    if options.resize == "none" or (reference_px < size_px and not options.enlarge):
        return height, width
    if options.resize == "exact":
        return size_px, size_px
    # In integers, rounded half up: no side depends on how a float was rounded.
    return tuple(  # type: ignore[return-value]
        max(1, (2 * side * size_px + reference_px) // (2 * reference_px))
        for side in (height, width)
    )


def _resize(pixels: np.ndarray, target: tuple[int, int], max_pixels: int) -> np.ndarray:
    _check_target(target, max_pixels)
    return resize(pixels, target)


def _check_target(target: tuple[int, int], max_pixels: int) -> None:
    if target[0] * target[1] > max_pixels:
        message = f"resizing gives {target[1]}x{target[0]} px, over max_pixels={max_pixels}"
        raise BadImage(TOO_MANY_PIXELS, message)


def _store(
    data: bytes,
    decoded: DecodedImage,
    notes: tuple[str, ...],
    pixels: np.ndarray,
    options: PrepareOptions,
) -> tuple[bytes, str]:
    """The file's own bytes where they may be kept, else the pixels encoded; and the format."""
    stored_format: str = options.encoding
    if stored_format == "original":
        if _can_keep_bytes(decoded, notes, pixels):
            return data, decoded.header.source_format
        stored_format = "png" if decoded.header.lossless else "jpeg"
    return encode(pixels, stored_format, options.jpeg_quality), stored_format


def _can_keep_bytes(decoded: DecodedImage, notes: tuple[str, ...], pixels: np.ndarray) -> bool:
    """Tells whether the file itself already is what would be stored."""
    return (
        decoded.header.source_format in ("jpeg", "png")
        and decoded.header.orientation == 1
        and not notes  # each stands for a conversion, or a file that few programs read
        and pixels is decoded.pixels  # neither resized nor converted
        and decoded.header.channels == (1 if pixels.ndim == 2 else 3)
    )
