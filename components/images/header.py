"""What a file's header says about its image, or a `BadImage` that says why it does not open."""

import contextlib
import importlib
import io
from dataclasses import dataclass

from PIL import Image

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import (
    ARCHIVE,
    CORRUPT,
    DECODER_ERRORS,
    NOT_AN_IMAGE,
    TOO_MANY_PIXELS,
    TOO_SMALL,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
    explain_decoder_error,
)
from image_pipeline.components.images.by_extras import open_by_extra
from image_pipeline.components.images.color import note_other_orientation, read_orientation
from image_pipeline.components.images.containers import count_gif_frames, move_metadata_up
from image_pipeline.components.images.jpeg import (
    PlainHeader,
    check_segments,
    read_jpeg_structure,
    read_plain_header,
)
from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.images.options import PrepareOptions
from image_pipeline.components.images.tiff import check_directories

# `max_pixels` refuses large images, per call and with a reason. Pillow's process-wide limit would
# warn or raise earlier, at sizes of its own.
Image.MAX_IMAGE_PIXELS = None

# Pillow's format names to ours. MPO is what Pillow calls a JPEG that further JPEGs follow, such as
# a phone's depth map; it opens those as JPEG.
_FORMATS = {
    "JPEG": "jpeg",
    "MPO": "jpeg",
    "PNG": "png",
    "WEBP": "webp",
    "TIFF": "tiff",
    "BMP": "bmp",
    "DIB": "bmp",
    "GIF": "gif",
    "AVIF": "avif",
    "HEIF": "heic",
    "JXL": "jxl",
    "DICOM": "dicom",
}
# Pillow loads these with the first such file, and goes on without those that it cannot load.
_LIBRARIES = {"webp": "WebPImagePlugin", "avif": "AvifImagePlugin"}
_NOT_BY_PILLOW = ("MPO", "HEIF", "JXL", "DICOM")
_OPENED_FORMATS = tuple(name for name in _FORMATS if name not in _NOT_BY_PILLOW)


@dataclass(frozen=True, slots=True)
class Header:
    """What is known about an image before its pixels are decoded."""

    source_format: str
    """`jpeg`, `png`, `webp`, `tiff`, `bmp`, `gif`, `avif`, `heic`, `jxl`, `dicom`, `npy`, `wav` or
    `flac`, by content."""
    height: int
    """Before orientation, in pixels."""
    width: int
    channels: int
    """1 for gray, 3 for colour; alpha is not counted."""
    orientation: int
    """EXIF orientation, 1 to 8."""
    icc: bytes | None
    """Colour profile; None means sRGB."""
    lossless: bool
    """False where the file's own compression has already cost detail."""
    notes: tuple[str, ...]
    """What is unusual."""
    dtype: str = "uint8"
    """Of an array's values; of all other files what they are read as unless more is asked for."""


def open_image(data: bytes) -> contextlib.AbstractContextManager[Image.Image]:
    """Opens an image by its content. A file of a known format that does not open is damaged."""
    if plain := read_plain_header(data):
        return contextlib.nullcontext(plain)  # type: ignore[arg-type]
    if (opened := open_by_extra(data)) is not None:
        return contextlib.nullcontext(opened)
    if data.startswith(b"\xff\xd8"):
        check_segments(data)
    if data.startswith((b"II", b"MM")):
        check_directories(data)
    if data.startswith(b"GIF8"):
        count_gif_frames(data, most=1)
    file = io.BytesIO(move_metadata_up(data))
    try:
        return Image.open(file, formats=_OPENED_FORMATS)
    except Image.UnidentifiedImageError as error:
        raise _explain_unopened(data) from error
    except DECODER_ERRORS as error:
        raise explain_decoder_error(error) from error


def _explain_unopened(data: bytes) -> BadImage:
    """Distinguishes an unsupported kind of image, a damaged one, and what is not an image.

    Raises:
      UserError: if Pillow lacks the library for this kind, which is not the image's fault.
    """
    kind = tell_kind(data)
    if kind.name in _LIBRARIES:
        plugin = importlib.import_module(f"PIL.{_LIBRARIES[kind.name]}")
        if not plugin.SUPPORTED:
            raise UserError(
                f"Pillow could not load its library for {kind.name} files: it was built without, "
                "or there was too little memory for it (`ulimit -v`, the container's limit); "
                "allow more memory, or reinstall Pillow."
            )
    if kind.group == "unsupported_image":
        return BadImage(UNSUPPORTED, f"{kind.name} is not read; {kind.way_out}")
    if kind.group == "archive":
        return BadImage(ARCHIVE, f"a {kind.name} archive; {kind.way_out}")
    if kind.group == "sound":
        return BadImage(NOT_AN_IMAGE, f"a sound; {kind.way_out}")
    if kind.group != "image":
        return BadImage(NOT_AN_IMAGE, f"no image starts with {data[:8]!r}; this is {kind.name}")
    if data.startswith(b"\xff\xd8"):
        read_jpeg_structure(data)  # raises an error that names the damage, if it can
    if kind.name == "tiff":
        offset = data[8:16] if data[2] == 0x2B else data[4:8]  # A BigTIFF's directory is anywhere.
        if int.from_bytes(offset, "little" if data[0] == 0x49 else "big") >= len(data):
            return BadImage(TRUNCATED, f"the TIFF ends at byte {len(data)}, before its directory")
        message = "a TIFF that Pillow cannot open: a rare sample layout, or a broken directory"
        way_out = "save its values as .npy, or convert it to PNG, for example"
        return BadImage(UNSUPPORTED, f"{message}; {way_out}: magick FILE FILE.png")
    if kind.name == "npy":
        return BadImage(
            UNSUPPORTED, "a NumPy array, which is read as an image only; save it as PNG"
        )
    return BadImage(CORRUPT, "the header of this file is damaged: Pillow does not recognise it")


def read_size(image: Image.Image) -> tuple[int, int]:
    """Returns (height, width) in pixels as the file has them, before orientation."""
    if image.format == "TIFF" and read_orientation(image)[0] >= 5:
        return image.width, image.height  # Pillow has swapped them already
    return image.height, image.width


def count_frames(image: Image.Image, data: bytes) -> int:
    """The frames of an opened image; to count them may take a walk through the whole file."""
    if image.format == "GIF":
        return max(1, count_gif_frames(data))
    return call_decoder(getattr, image, "n_frames", 1)


def read_header(image: Image.Image, data: bytes) -> Header:
    """Reads all that an opened image's header says."""
    if isinstance(image, PlainHeader):  # There is nothing else in it.
        channels = 1 if image.mode == "L" else 3
        return Header("jpeg", image.height, image.width, channels, 1, None, False, ())
    source_format = _FORMATS[str(image.format)]
    height, width = read_size(image)
    orientation, notes = read_orientation(image)
    if "exif" not in image.info and orientation == 1:
        notes += note_other_orientation(image.info)
    frames = count_frames(image, data)
    icc = image.info.get("icc_profile")
    if icc and not isinstance(icc, bytes):  # A TIFF's tag may declare it as text.
        notes += ("icc_broken",)
    is_lossless = source_format in ("png", "bmp", "gif")
    if source_format == "tiff":
        compression = str(image.info.get("compression", "jpeg"))
        is_lossless = "jpeg" not in compression
    elif source_format in ("jxl", "dicom"):
        is_lossless = image.is_lossless  # type: ignore[attr-defined]
    return Header(
        source_format=source_format,
        height=height,
        width=width,
        channels=1 if image.mode in ("1", "L", "LA", "La", "I;16", "I;16B") else 3,
        orientation=orientation,
        icc=icc or None if isinstance(icc, bytes) else None,
        lossless=is_lossless,
        notes=((f"frames:{frames}",) if frames > 1 else ()) + notes,
    )


# Pillow raises MemoryError, however much there is, where a row has more than 2³¹ bits: at 64 bits a
# pixel, its most (`ImagingCodec.setimage`), from 2²⁵ pixels on.
_MOST_SIDE_PX = 2**24


def check_size(height: int, width: int, options: PrepareOptions) -> None:
    """Raises `BadImage` if an image, a mask or a drawn sound is too small or too large."""
    if min(height, width) < options.min_side_px:
        message = f"{width}x{height} px, below min_side_px={options.min_side_px}"
        raise BadImage(TOO_SMALL, f"{message}; lower it to keep these")
    if max(height, width) > _MOST_SIDE_PX:
        message = f"{width}x{height} px, but no decoder reads a side above {_MOST_SIDE_PX} px"
        raise BadImage(UNSUPPORTED, message)
    if height * width > options.max_pixels:
        message = f"{width}x{height} px, more than max_pixels={options.max_pixels}"
        raise BadImage(TOO_MANY_PIXELS, f"{message}; raise it for such files")
