"""A mask's file to levels or colours, exactly as they are in it."""

import numpy as np
from PIL import Image

from image_pipeline.components.images.bad_image import CORRUPT, BadImage, call_decoder
from image_pipeline.components.images.color import orient, read_orientation
from image_pipeline.components.images.containers import has_whole_pixels
from image_pipeline.components.images.header import check_size, count_frames, open_image, read_size
from image_pipeline.components.images.npy import NPY_MAGIC, read_array, read_array_header
from image_pipeline.components.images.options import PrepareOptions
from image_pipeline.components.images.prepare import PreparedImage

BAD_MASK, MASK_SIZE = "bad_mask", "mask_size"

_FORMATS = ("PNG", "TIFF", "BMP", "GIF")
_MOST_LEVEL = 65_535
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262  # a TIFF's tags


def read_levels(data: bytes, image: PreparedImage, as_colors: bool) -> np.ndarray:
    """Reads a mask of the size that its image's file has, once both are upright.

    Args:
      data: the mask's whole file; of an array, levels or colours as they are in memory.
      image: the image that it is the mask of.
      as_colors: whether its colours matter, and not its gray levels or palette indices.

    Returns:
      Levels, uint8, uint16 or int32 [height, width]; or colours, int32 [height, width]: red ·
      65536 + green · 256 + blue.

    Raises:
      BadImage: if it cannot be read exactly, or has another size.
    """
    if data.startswith(NPY_MAGIC):
        return _read_array(data, image, as_colors)
    with open_image(data) as opened:
        _check_format(opened, data)
        orientation, _ = read_orientation(opened)
        _check_size(read_size(opened), orientation, image)
        if opened.format == "PNG" and not has_whole_pixels(data):  # Pillow does not look.
            raise BadImage(CORRUPT, "a checksum of its pixels is wrong")
        bits = _bits_of_samples(opened, data)
        _load(opened)
        values = _values(opened, bits, as_colors)
    # Images are turned by EXIF alone, too; Pillow has turned a TIFF by it.
    return values if opened.format == "TIFF" else orient(values, orientation)


def list_values(data: bytes, as_colors: bool = False) -> list[int | str]:
    """The levels or palette indices that a mask shows, or its colours as `#rrggbb`; ascending.

    Raises:
      BadImage: if it cannot be read exactly.
    """
    with open_image(data) as opened:
        _check_format(opened, data)
        check_size(*read_size(opened), PrepareOptions())
        bits = _bits_of_samples(opened, data)
        _load(opened)
        if as_colors or (opened.mode in ("RGB", "RGBA") and not _is_gray(opened)):
            return [f"#{color:06x}" for color in np.unique(_values(opened, bits, True)).tolist()]
        return np.unique(_values(opened, bits, False)).tolist()


def _read_array(data: bytes, image: PreparedImage, as_colors: bool) -> np.ndarray:
    """As `read_levels`, of an `.npy` file."""
    array = read_array(data, read_array_header(data))
    array = array[..., 0] if array.shape[2:] == (1,) else array
    is_color = array.ndim == 3 and array.shape[2] == 3
    if array.dtype.kind not in "iu" or not (array.ndim == 2 or is_color):
        message = f"is an array of {array.dtype}, of shape {array.shape}, but a mask has whole"
        raise BadImage(BAD_MASK, f"{message} numbers, [height, width] or [height, width, 3]")
    _check_size(array.shape[:2], 1, image)
    lowest, highest = int(array.min()), int(array.max())
    most = 255 if is_color else _MOST_LEVEL
    if lowest < 0 or highest > most:
        found = f"is an array of {lowest} to {highest}"
        raise BadImage(BAD_MASK, f"{found}, but its numbers must be 0 to {most}")
    is_deep = highest > 255
    pixels = Image.fromarray(array.astype(np.int32 if is_deep else np.uint8))
    return _values(pixels, 16 if is_deep else 8, as_colors)


def _values(pixels: Image.Image, bits: int, as_colors: bool) -> np.ndarray:
    has_alpha = pixels.mode in ("RGBA", "LA", "PA")
    if has_alpha and np.asarray(call_decoder(pixels.getchannel, "A")).min() < 255:
        raise BadImage(BAD_MASK, "has transparent pixels, which are of no class; save it opaque")
    if bits > 8 and (as_colors or not pixels.mode.startswith("I")):  # Pillow drops some of them.
        raise BadImage(BAD_MASK, f"has {bits} bits for each of its channels; save it with 8")
    if not as_colors:
        return _levels(pixels, bits)
    rgb = np.asarray(call_decoder(pixels.convert, "RGB"), np.int32)
    return rgb[..., 0] << 16 | rgb[..., 1] << 8 | rgb[..., 2]


def _load(opened: Image.Image) -> None:
    opened.info.pop("xmp", None)  # By which Pillow would turn a TIFF.
    call_decoder(opened.load)


def _check_format(opened: Image.Image, data: bytes) -> None:
    compression = opened.info.get("compression")
    if opened.format == "TIFF" and opened.tag_v2.get(_PHOTOMETRIC) == 0:  # type: ignore[attr-defined]
        raise BadImage(BAD_MASK, "is a TIFF of inverted levels (MinIsWhite); save it as PNG")
    is_lossy = compression in ("jpeg", "tiff_jpeg", "webp")
    if opened.format not in _FORMATS or is_lossy:
        raise BadImage(
            BAD_MASK,
            f"is {opened.format}{f' compressed as {compression}' if is_lossy else ''}, but class "
            f"ids are only sure to be exact in {', '.join(_FORMATS)}; save masks as PNG",
        )
    frames = count_frames(opened, data)
    if frames > 1:
        raise BadImage(BAD_MASK, f"has {frames} frames, but a mask is one image")


def _check_size(own: tuple[int, ...], orientation: int, image: PreparedImage) -> None:
    wanted = (image.source_height, image.source_width)
    upright = wanted[::-1] if image.orientation > 4 else wanted
    if (own[::-1] if orientation > 4 else own) != upright:
        hint = ""
        if image.orientation > 4:
            hint = f", turned by its EXIF orientation {image.orientation},"
        raise BadImage(
            MASK_SIZE,
            f"has {own[1]}x{own[0]} px, but its image{hint} has {upright[1]}x{upright[0]}",
        )


def _bits_of_samples(opened: Image.Image, data: bytes) -> int:
    if opened.format == "TIFF":
        return max(opened.tag_v2.get(_BITS_PER_SAMPLE, (1,)))  # type: ignore[attr-defined]
    return data[24] if opened.format == "PNG" else 8


def _levels(pixels: Image.Image, bits: int) -> np.ndarray:
    if pixels.mode in ("1", "L", "P") or pixels.mode.startswith("I"):
        levels = call_decoder(np.asarray, pixels)
        if pixels.mode == "1":
            return levels.astype(np.uint8)
        # Pillow spreads 4, 16 levels over 256.
        is_spread = pixels.mode == "L" and bits < 8
        return levels // np.uint8(255 // (2**bits - 1)) if is_spread else levels
    if pixels.mode not in ("RGB", "RGBA", "LA"):
        raise BadImage(BAD_MASK, f"pixels of Pillow's mode {pixels.mode} are not class ids")
    if not _is_gray(pixels):
        raise BadImage(
            BAD_MASK, "is in colour; name its colours, as in ingest.masks.classes={sky: '#8080ff'}"
        )
    return np.asarray(call_decoder(pixels.convert, "RGB"))[..., 0]


def _is_gray(pixels: Image.Image) -> bool:
    channels = np.asarray(call_decoder(pixels.convert, "RGB"))
    return bool((channels == channels[..., :1]).all())
