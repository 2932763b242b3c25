"""The decoders: each kind of file to 8-bit pixels in its own colours, and its alpha.

libjpeg-turbo decodes JPEGs, OpenCV every PNG and what `tiff` says: they are the faster decoders,
keep 16 bits, and refuse damage that they find. Pillow reads everything else, except what has been
opened `by_extras`.
"""

import io
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)
from image_pipeline.components.images.depth import ALL_LEVELS, Levels
from image_pipeline.components.images.heic import load_heic
from image_pipeline.components.images.jpeg import (
    expose_missing_data,
    is_arithmetic,
    read_jpeg_structure,
)
from image_pipeline.components.images.jpeg_holes import check_holes, count_last_zeros
from image_pipeline.components.images.jpeg_pixels import decode_jpeg
from image_pipeline.components.images.png import (
    DEPTH,
    misses_much,
    read_transparent_level,
    take_default_image,
)
from image_pipeline.components.images.tiff import decode_tiff_samples, read_tiff_layout

# The caller's threads, with an image each, already use all cores; OpenCV's own threads would only
# compete with them.
cv2.setNumThreads(0)
# A bad file is reported as a `BadImage`, so OpenCV's own log lines would only repeat it. The few
# lines that libjpeg and libpng print to stderr cannot be turned off from Python.
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # type: ignore[attr-defined]


_PNG_COLOR_TYPE, _PNG_GRAY_ALPHA = 25, 4


class Pixels(NamedTuple):
    """Decoded but not yet converted pixels."""

    color: np.ndarray  # uint8 gray [height, width], or RGB or CMYK [height, width, channels]
    alpha: np.ndarray | None  # uint8 [height, width]
    notes: tuple[str, ...]


def read_pixels(
    data: bytes,
    image: Image.Image,
    source_format: str,
    luma_only: bool,
    reduction: int,
    levels: Levels | None = None,
) -> Pixels:
    """Decodes an opened image.

    Args:
      data: the whole file.
      image: its opened header.
      source_format: as `Header` names it.
      luma_only: lets a JPEG skip its colour channels.
      reduction: by how many times smaller a JPEG is decoded: 8, 4, 2 or 1.
      levels: how colours of 16 bits become 8; None for all that they can hold.

    Raises:
      BadImage: the pixels are incomplete, or of an unsupported kind.
    """
    if source_format == "jpeg":
        return _decode_jpeg(data, image, luma_only, reduction)
    if source_format == "png":
        return _decode_png(data, image, levels or ALL_LEVELS)
    if source_format == "tiff":
        return _decode_tiff(data, image, levels or ALL_LEVELS)
    if source_format in ("jxl", "dicom"):
        return Pixels(*image.read_shown(levels))  # type: ignore[attr-defined]
    notes = load_heic(image) if source_format == "heic" else ()
    pixels = _decode_with_pillow(image)
    return pixels._replace(notes=notes + pixels.notes)


def _decode_jpeg(data: bytes, image: Image.Image, luma_only: bool, reduction: int) -> Pixels:
    """Decodes a JPEG of 1, 3 or 4 channels; one without data for every pixel is refused."""
    structure = read_jpeg_structure(data)
    notes = ("arithmetic",) if is_arithmetic(structure) else ()
    if image.mode == "CMYK":
        # Pillow does not report surplus bytes, so all zeros at the end are taken for padding.
        check_holes(data, structure, left_over=count_last_zeros(data, structure))
        data = expose_missing_data(data, structure)
        with call_decoder(Image.open, io.BytesIO(data), formats=("JPEG",)) as reopened:
            call_decoder(reopened.load)
            return Pixels(np.asarray(reopened), None, (*notes, "cmyk"))
    gray = image.mode == "L" or luma_only
    size = (image.height, image.width)
    pixels, decoder_notes = decode_jpeg(data, structure, size, gray, reduction)
    return Pixels(_check_decoded(pixels, image, reduction), None, notes + decoder_notes)


def _decode_png(data: bytes, image: Image.Image, levels: Levels) -> Pixels:
    """Decodes a PNG of any depth and colour type to 8 bits."""
    still = take_default_image(data)
    decoded = read_png_samples(data, image, still)
    level = read_transparent_level(data) if decoded.ndim == 2 else None
    if level is not None:
        # OpenCV ignores the transparent level of gray images. The file has it unscaled.
        depth, top = data[DEPTH], np.iinfo(decoded.dtype).max
        level = level * 255 // (2**depth - 1) if depth < 8 else level
        alpha = np.where(decoded == level, 0, top).astype(decoded.dtype)
        decoded = np.dstack([decoded, alpha])
    pixels = _split_alpha(decoded, levels)
    if still is not data and call_decoder(getattr, image, "n_frames", 1) == 1:
        pixels = pixels._replace(notes=(*pixels.notes, "frames:1"))
    return pixels


def read_png_samples(data: bytes, image: Image.Image, still: bytes) -> np.ndarray:
    """Decodes a PNG of any depth and colour type.

    OpenCV checks every checksum.

    Args:
      data: the whole file.
      image: its opened header.
      still: the file without its animation.

    Returns:
      uint8 or uint16 gray [height, width], or [height, width, channels]: gray and alpha, BGR, or
      BGRA.
    """
    buffer, decoded = np.frombuffer(still, np.uint8), None
    if not misses_much(still):
        decoded = call_decoder(cv2.imdecode, buffer, cv2.IMREAD_UNCHANGED, errors=(cv2.error,))
    if decoded is None and b"IEND" not in data:
        raise BadImage(TRUNCATED, f"the PNG data ends at byte {len(data)} without an end chunk")
    pixels = _check_decoded(decoded, image)
    # OpenCV repeats the gray of gray and alpha.
    return pixels[:, :, ::3] if data[_PNG_COLOR_TYPE] == _PNG_GRAY_ALPHA else pixels


def _decode_tiff(data: bytes, image: Image.Image, levels: Levels) -> Pixels:
    """Decodes a TIFF by whichever decoder reads its layout right; the rarer ones are refused."""
    decoded = decode_tiff_samples(data, image, read_tiff_layout(image))
    if decoded is None:
        # Pillow would turn the pixels as XMP says, but leave the size and everything else as it
        # was.
        image.info.pop("xmp", None)
        return _decode_with_pillow(image)
    return _split_alpha(_check_decoded(decoded, image), levels)


def _check_decoded(pixels: np.ndarray | None, image: Image.Image, reduction: int = 1) -> np.ndarray:
    """Returns OpenCV's pixels; raises if there are none, or if their size is not the header's."""
    if pixels is None:
        raise BadImage(CORRUPT, "the compressed data is damaged or ends before the last pixel")
    header = (image.height // reduction, image.width // reduction)
    if pixels.shape[:2] != header:
        message = f"decoded to {pixels.shape[:2]}, but the header says {header}"
        raise BadImage(CORRUPT, message)
    return pixels


def _split_alpha(pixels: np.ndarray, levels: Levels) -> Pixels:
    """Turns uint8 or uint16 gray, gray and alpha, BGR or BGRA into 8-bit gray or RGB, and alpha."""
    color, alpha = pixels, None
    if pixels.ndim == 3 and pixels.shape[2] == 2:
        color, alpha = np.ascontiguousarray(pixels[:, :, 0]), pixels[:, :, 1]
    elif pixels.ndim == 3 and pixels.shape[2] == 4:
        color, alpha = cv2.cvtColor(pixels, cv2.COLOR_BGRA2RGB), pixels[:, :, 3]
    elif pixels.ndim == 3:
        color = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    notes = ("alpha",) if alpha is not None else ()
    if pixels.dtype == np.uint8:
        return Pixels(color, alpha, notes)
    opacity = None if alpha is None else ALL_LEVELS.narrow(alpha)
    return Pixels(levels.narrow(color, alpha), opacity, ("16bit", *notes))


def _decode_with_pillow(image: Image.Image) -> Pixels:
    """Decodes the first frame of anything with at most 8 bits per channel."""
    call_decoder(image.load)
    if image.mode == "La":  # Gray that was multiplied by its alpha, which becomes nothing else.
        image = call_decoder(image.convert, "LA")
    if image.mode in ("LA", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        pixels = np.asarray(call_decoder(image.convert, "RGBA"))
        return Pixels(np.ascontiguousarray(pixels[:, :, :3]), pixels[:, :, 3], ("alpha",))
    if image.mode in ("1", "L"):
        return Pixels(np.asarray(call_decoder(image.convert, "L")), None, ())
    if image.mode == "CMYK":
        return Pixels(np.asarray(image), None, ("cmyk",))
    if image.mode in ("P", "RGB", "RGBX", "YCbCr"):
        return Pixels(np.asarray(call_decoder(image.convert, "RGB")), None, ())
    raise BadImage(UNSUPPORTED, f"pixels of mode {image.mode}; convert the image to 8-bit RGB")
