"""Images of other types than 8-bit gray and RGB: every value is kept as the file has it.

No profile is applied, nothing is made 8-bit, and channels are only converted between gray and RGB,
and only where no number of channels was asked for.
"""

import cv2
import numpy as np
from PIL import Image

from image_pipeline.components.dataset.record import PixelType
from image_pipeline.components.images.bad_image import CORRUPT, UNSUPPORTED, BadImage
from image_pipeline.components.images.color import composite, convert_channels, orient
from image_pipeline.components.images.decode import (
    DecodedImage,
    check_file,
    check_size,
    decode_image,
    open_array,
)
from image_pipeline.components.images.decoders import read_png_samples
from image_pipeline.components.images.header import open_image, read_header, read_size
from image_pipeline.components.images.npy import is_npy, name_type, read_array
from image_pipeline.components.images.png import take_default_image
from image_pipeline.components.images.resize import resize
from image_pipeline.components.images.tiff import decode_tiff_samples, read_tiff_layout

# By what images are stored as: the types of which every value is kept, or rounded to the nearest
# float32. None that would be another scale to the eye of a model: no 8-bit image is a 16-bit one.
_READ_AS: dict[str, tuple[str, ...]] = {
    "uint8": ("uint8",),
    "uint16": ("uint16",),
    "float16": ("float16",),
    "float32": ("float32", "float64", "int8", "int16"),
}
# OpenCV's filters take at most four channels quickly, and none takes more than 512.
_CHANNELS_AT_ONCE = 4


def decode_deep(
    data: bytes,
    *,
    dtype: PixelType,
    channels: int | None,
    gray: bool,
    alpha_background: tuple[int, int, int],
    min_side_px: int,
    max_pixels: int,
    max_file_bytes: int,
) -> DecodedImage:
    """Decodes a file to pixels of one type, which the file has to have.

    Args:
      data: the whole file.
      dtype: the type that is asked for.
      channels: how many channels the image must have, which are then kept as they are; None to
        convert them to gray or RGB.
      gray: to which of the two.
      alpha_background: 8-bit RGB colour behind transparent pixels, if channels are converted.
      min_side_px: as of `decode_image`; so are `max_pixels` and `max_file_bytes`.

    Returns:
      Upright pixels, `dtype` [height, width(, channels)].

    Raises:
      BadImage: the file is not a complete image of this type within the limits.
    """
    check_file(data, max_file_bytes)
    # What has 8 bits is decoded to gray or RGB.
    decoded = _decode_samples(data, channels is not None, min_side_px, max_pixels) or decode_image(
        data,
        gray=False,
        alpha_background=alpha_background,
        min_side_px=min_side_px,
        max_pixels=max_pixels,
        max_file_bytes=max_file_bytes,
    )
    pixels, notes = _fit_type(decoded.pixels, dtype)
    if channels is None:
        may_have_alpha = decoded.header.source_format != "npy"
        pixels, alpha_notes = _fit_color(pixels, gray, may_have_alpha, alpha_background)
        notes += alpha_notes
    elif channels != (found := count_channels(pixels)):
        message = f"it has {found} channel{'s' * (found != 1)}, but ingest.prepare.channels"
        raise BadImage(UNSUPPORTED, f"{message}={channels}; store other images by themselves")
    notes += ("icc_unused",) if decoded.icc else ()
    return DecodedImage(pixels, None, decoded.header, decoded.notes + notes)


def _decode_samples(
    data: bytes, keep_extra: bool, min_side_px: int, max_pixels: int
) -> DecodedImage | None:
    """Decodes what may have more than 8 bits with all of them; None for other files."""
    if is_npy(data):
        array, header = open_array(data, min_side_px, max_pixels)
        return DecodedImage(read_array(data, array), None, header, ())
    with open_image(data) as image:
        check_size(*read_size(image), min_side_px, max_pixels)
        is_read = image.format in ("PNG", "TIFF", "JXL", "DICOM")
        return _decode_opened(data, image, keep_extra) if is_read else None


def count_channels(pixels: np.ndarray) -> int:
    """The channels of pixels [height, width(, channels)]."""
    return 1 if pixels.ndim == 2 else pixels.shape[2]


def _decode_opened(data: bytes, image: Image.Image, keep_extra: bool) -> DecodedImage | None:
    """Decodes an opened file with all its bits and channels; None for one that Pillow reads."""
    header, notes = read_header(image, data), tuple[str, ...]()
    if image.format in ("JXL", "DICOM"):
        pixels, notes = image.read_samples()  # type: ignore[attr-defined]
    elif image.format == "PNG":
        pixels = orient(
            _to_rgb(read_png_samples(data, image, take_default_image(data))), header.orientation
        )
    else:
        samples = decode_tiff_samples(data, image, read_tiff_layout(image), True, keep_extra)
        if samples is None:
            return None
        pixels = _to_rgb(samples)  # already upright
    return DecodedImage(pixels, header.icc, header, header.notes + notes)


def _to_rgb(pixels: np.ndarray) -> np.ndarray:
    """From OpenCV's order of channels, blue first; alpha stays last."""
    if pixels.ndim == 2 or pixels.shape[2] == 2:
        return pixels
    code = cv2.COLOR_BGR2RGB if pixels.shape[2] == 3 else cv2.COLOR_BGRA2RGBA
    return cv2.cvtColor(pixels, code)


def _fit_type(pixels: np.ndarray, dtype: PixelType) -> tuple[np.ndarray, tuple[str, ...]]:
    """Returns pixels of the type that is asked for, and notes of what was rounded."""
    found = str(pixels.dtype)
    if found not in _READ_AS[dtype]:
        raise refuse_type(found, dtype)
    with np.errstate(over="ignore"):  # What becomes infinite is refused here.
        fitted = pixels.astype(dtype, copy=False)
    if fitted.dtype.kind == "f" and not np.isfinite(fitted).all():
        bad = fitted.size - int(np.isfinite(fitted).sum())
        message = f"{bad} of {fitted.size} values are NaN, infinite or too large for {dtype}"
        raise BadImage(CORRUPT, f"{message}; replace them, for example by numpy.nan_to_num")
    return fitted, ("float64",) if found == "float64" else ()


def refuse_type(found: str, dtype: str) -> BadImage:
    """Says that an image's values are not of the type that is asked for."""
    message = f"its values are {name_type(found)}, but ingest.prepare.dtype={dtype}"
    if found in _READ_AS:
        way_out = f"store such images by themselves, with ingest.prepare.dtype={found}"
    elif found in _READ_AS["float32"]:
        way_out = "ingest.prepare.dtype=float32 reads them"
    else:
        way_out = f"save it as one of {', '.join(_READ_AS)}"
    return BadImage(UNSUPPORTED, f"{message}; {way_out}")


def _fit_color(
    pixels: np.ndarray, gray: bool, may_have_alpha: bool, background: tuple[int, int, int]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Converts to gray or RGB, laid on a colour where it is transparent; notes what was changed."""
    found = count_channels(pixels)
    color, notes = pixels, tuple[str, ...]()
    if may_have_alpha and found in (2, 4):
        first = pixels[:, :, 0] if found == 2 else pixels[:, :, :3]
        color = composite(np.ascontiguousarray(first), pixels[:, :, -1], background)
        notes = ("alpha",)
    elif found not in (1, 3):
        message = f"it has {found} channels, which are neither gray nor RGB"
        raise BadImage(UNSUPPORTED, f"{message}; ingest.prepare.channels={found} stores them")
    if color.ndim == 3 and color.shape[2] == 1:
        color = color[:, :, 0]
    if (color.ndim == 2) != gray:
        notes += ("color",) if gray else ("gray",)
    if color.dtype != np.float16:
        return convert_channels(color, gray), notes
    return convert_channels(color.astype(np.float32), gray).astype(np.float16), notes


def resize_deep(pixels: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """Resizes as `resize`, pixels of any type and number of channels; float16 as float32."""
    if pixels.shape[:2] == target:
        return pixels
    if pixels.dtype == np.float16:
        return _round_to_half(resize_deep(pixels.astype(np.float32), target))
    if pixels.ndim == 2:
        return resize(pixels, target)
    parts = [
        resize(np.ascontiguousarray(pixels[:, :, at : at + _CHANNELS_AT_ONCE]), target)
        for at in range(0, pixels.shape[2], _CHANNELS_AT_ONCE)
    ]
    return np.dstack(parts)


def _round_to_half(pixels: np.ndarray) -> np.ndarray:
    """From float32 to float16; an enlarged image may overshoot its values a little."""
    most = np.float32(np.finfo(np.float16).max)
    return np.clip(pixels, -most, most).astype(np.float16)


def store_raw(pixels: np.ndarray) -> bytes:
    """Row-major values, the lowest byte first."""
    return pixels.astype(pixels.dtype.newbyteorder("<"), copy=False).tobytes()
