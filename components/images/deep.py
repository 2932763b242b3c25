"""Images of other types than 8-bit gray and RGB: every value is kept as the file has it.

No profile is applied, nothing is made 8-bit, and channels are only converted between gray and RGB,
and only where no number of channels was asked for.
"""

import cv2
import numpy as np

from image_pipeline.components.dataset.record import PixelType
from image_pipeline.components.images.bad_image import CORRUPT, UNSUPPORTED, BadImage
from image_pipeline.components.images.color import composite, convert_channels, orient
from image_pipeline.components.images.containers import take_default_image
from image_pipeline.components.images.decode import (
    DecodedImage,
    decode_image,
    open_array,
    read_png_samples,
)
from image_pipeline.components.images.header import (
    check_size,
    open_image,
    read_header,
    read_size,
)
from image_pipeline.components.images.npy import NPY_MAGIC, name_type, read_array
from image_pipeline.components.images.options import PrepareOptions
from image_pipeline.components.images.tiff import decode_tiff_samples, read_tiff_layout

# By what images are stored as: the types of which every value is kept, or rounded to the nearest
# float32. None that would be another scale to the eye of a model: no 8-bit image is a 16-bit one.
_READ_AS: dict[str, tuple[str, ...]] = {
    "uint8": ("uint8",),
    "uint16": ("uint16",),
    "float16": ("float16",),
    "float32": ("float32", "float64", "int8", "int16"),
}


def decode_deep(data: bytes, options: PrepareOptions) -> DecodedImage:
    """Decodes a file to pixels of one type, which the file has to have.

    Args:
      data: the whole file.
      options: its limits; the type that is asked for; and how many channels the image must have,
        which are then kept as they are, or the colour that it is converted to.

    Returns:
      Upright pixels, `options.dtype` [height, width(, channels)].

    Raises:
      BadImage: the file is not a complete image of this type within the limits.
    """
    # What has 8 bits only is decoded to gray or RGB.
    decoded = _decode_samples(data, options) or decode_image(data, options)
    pixels, notes = _fit_type(decoded.pixels, options.dtype)
    if options.channels is None:
        may_have_alpha = decoded.header.source_format != "npy"
        pixels, alpha_notes = _fit_color(pixels, may_have_alpha, options)
        notes += alpha_notes
    elif options.channels != (found := _count_channels(pixels)):
        message = f"it has {found} channel{'s' * (found != 1)}, but ingest.prepare.channels"
        raise BadImage(
            UNSUPPORTED, f"{message}={options.channels}; store other images by themselves"
        )
    notes += ("icc_unused",) if decoded.icc else ()
    return DecodedImage(pixels, None, decoded.header, decoded.notes + notes)


def _decode_samples(data: bytes, options: PrepareOptions) -> DecodedImage | None:
    """Decodes what may have more than 8 bits with all its bits and channels; None for others."""
    if data.startswith(NPY_MAGIC):
        array, header = open_array(data, options)
        return DecodedImage(read_array(data, array), None, header, ())
    with open_image(data) as image:
        check_size(*read_size(image), options)
        if image.format not in ("PNG", "TIFF", "JXL", "DICOM"):
            return None
        header, notes = read_header(image, data), tuple[str, ...]()
        if image.format in ("JXL", "DICOM"):
            pixels, notes = image.read_samples()  # type: ignore[attr-defined]
        elif image.format == "PNG":
            still = take_default_image(data)
            pixels = orient(_to_rgb(read_png_samples(data, image, still)), header.orientation)
        else:
            layout, keep_extra = read_tiff_layout(image), options.channels is not None
            samples = decode_tiff_samples(data, image, layout, True, keep_extra)
            if samples is None:
                return None
            pixels = _to_rgb(samples)  # already upright
    return DecodedImage(pixels, header.icc, header, header.notes + notes)


def _count_channels(pixels: np.ndarray) -> int:
    """The channels of pixels [height, width(, channels)]."""
    return 1 if pixels.ndim == 2 else pixels.shape[2]


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
        message = f"its values are {name_type(found)}, but ingest.prepare.dtype={dtype}"
        if found in _READ_AS:
            way_out = f"store such images by themselves, with ingest.prepare.dtype={found}"
        elif found in _READ_AS["float32"]:
            way_out = "ingest.prepare.dtype=float32 reads them"
        else:
            way_out = f"save it as one of {', '.join(_READ_AS)}"
        raise BadImage(UNSUPPORTED, f"{message}; {way_out}")
    with np.errstate(over="ignore"):  # What becomes infinite is refused here.
        fitted = pixels.astype(dtype, copy=False)
    if fitted.dtype.kind == "f" and not np.isfinite(fitted).all():
        bad = fitted.size - int(np.isfinite(fitted).sum())
        message = f"{bad} of {fitted.size} values are NaN, infinite or too large for {dtype}"
        raise BadImage(CORRUPT, f"{message}; replace them, for example by numpy.nan_to_num")
    return fitted, ("float64",) if found == "float64" else ()


def _fit_color(
    pixels: np.ndarray, may_have_alpha: bool, options: PrepareOptions
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Converts to gray or RGB, laid on a colour where it is transparent; notes what was changed."""
    found = _count_channels(pixels)
    color, notes, gray = pixels, tuple[str, ...](), options.color == "gray"
    if may_have_alpha and found in (2, 4):
        first = pixels[:, :, 0] if found == 2 else pixels[:, :, :3]
        color = composite(np.ascontiguousarray(first), pixels[:, :, -1], options.alpha_background)
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
