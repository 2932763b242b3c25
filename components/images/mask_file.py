"""A mask's file to levels or colours, exactly as they are in it."""

import io

import numpy as np
from PIL import Image, ImageOps

from image_pipeline.components.images.bad_image import CORRUPT, BadImage, call_decoder
from image_pipeline.components.images.png import has_whole_pixels
from image_pipeline.components.images.prepare import PreparedImage

BAD_MASK, MASK_SIZE = "bad_mask", "mask_size"

_FORMATS = ("PNG", "TIFF", "BMP", "GIF")
_BITS_PER_SAMPLE = 258  # a TIFF's tag


def read_levels(data: bytes, image: PreparedImage, as_colors: bool) -> np.ndarray:
    """Reads a mask of the size that its image's file has, once both are upright.

    Args:
      data: the mask's whole file.
      image: the image that it is the mask of.
      as_colors: whether its colours matter, and not its gray levels or palette indices.

    Returns:
      Levels, int64 or uint8 [height, width]; or colours, int32 [height, width]: red · 65536 +
      green · 256 + blue.

    Raises:
      BadImage: if it cannot be read exactly, or has another size.
    """
    opened = call_decoder(Image.open, io.BytesIO(data))
    _check_format(opened)
    _check_size(opened, image)
    if opened.format == "PNG" and not has_whole_pixels(data):  # Pillow does not look.
        raise BadImage(CORRUPT, "a checksum of its pixels is wrong")
    bits = _bits_of_samples(opened, data)
    pixels = call_decoder(ImageOps.exif_transpose, opened)
    _check_opaque(pixels)
    if bits > 8 and (as_colors or not pixels.mode.startswith("I")):  # Pillow drops some of them.
        raise BadImage(BAD_MASK, f"has {bits} bits for each of its channels; save it with 8")
    return _colors(pixels) if as_colors else _levels(pixels, bits)


def _check_format(opened: Image.Image) -> None:
    compression = opened.info.get("compression")
    is_lossy = compression in ("jpeg", "tiff_jpeg", "webp")
    if opened.format not in _FORMATS or is_lossy:
        raise BadImage(
            BAD_MASK,
            f"is {opened.format}{f' compressed as {compression}' if is_lossy else ''}, but class "
            f"ids are only sure to be exact in {', '.join(_FORMATS)}; save masks as PNG",
        )
    frames = call_decoder(getattr, opened, "n_frames", 1)
    if frames > 1:
        raise BadImage(BAD_MASK, f"has {frames} frames, but a mask is one image")


def _check_size(opened: Image.Image, image: PreparedImage) -> None:
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


def _bits_of_samples(opened: Image.Image, data: bytes) -> int:
    if opened.format == "TIFF":
        return max(opened.tag_v2.get(_BITS_PER_SAMPLE, (1,)))  # type: ignore[attr-defined]
    return data[24] if opened.format == "PNG" else 8


def _colors(pixels: Image.Image) -> np.ndarray:
    rgb = np.asarray(call_decoder(pixels.convert, "RGB"), np.int32)
    return rgb[..., 0] << 16 | rgb[..., 1] << 8 | rgb[..., 2]


def _levels(pixels: Image.Image, bits: int) -> np.ndarray:
    if pixels.mode in ("1", "L", "P") or pixels.mode.startswith("I"):
        levels = call_decoder(np.asarray, pixels).astype(np.int64)
        # Pillow spreads 4, 16 levels over 256.
        return levels // (255 // (2**bits - 1)) if pixels.mode == "L" and bits < 8 else levels
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
