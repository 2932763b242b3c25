"""One image in, one image out: check, decode, orient, resize, encode. No Beam, no TensorFlow."""

from dataclasses import dataclass

from image_pipeline.components.dataset.record import name_raw
from image_pipeline.components.images.bad_image import REASONS, TOO_MANY_PIXELS, BadImage
from image_pipeline.components.images.color import convert_channels, convert_to_srgb
from image_pipeline.components.images.decode import decode_image
from image_pipeline.components.images.deep import count_channels, decode_deep
from image_pipeline.components.images.depth import Levels
from image_pipeline.components.images.encode import encode, resize
from image_pipeline.components.images.options import Encoding, PrepareOptions

__all__ = ["REASONS", "BadImage", "Encoding", "PrepareOptions", "PreparedImage", "prepare_image"]


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
    is_deep, gray = options.is_deep, options.color == "gray"
    if is_deep:
        decoded = decode_deep(data, options)
    else:
        decoded = decode_image(data, options, levels or options.depth.levels)
    header, notes = decoded.header, decoded.notes
    # By the file's size, not by that of its pixels, of which a JPEG may have been decoded to fewer.
    sides = header.height, header.width
    target = options.choose_size(*(sides[::-1] if header.orientation > 4 else sides))
    if target[0] * target[1] > options.max_pixels:
        message = f"resizing gives {target[1]}x{target[0]} px, over max_pixels={options.max_pixels}"
        raise BadImage(TOO_MANY_PIXELS, message)
    pixels = resize(decoded.pixels, target)
    stored_format: str = options.encoding
    if is_deep:
        stored_format = name_raw(options.dtype).decode()
        encoded = encode(pixels, "raw", options.jpeg_quality)
    else:
        # After resizing, since a profile costs more per pixel than decoding.
        pixels, profile_notes = convert_to_srgb(pixels, decoded.icc)
        pixels = convert_channels(pixels, gray)
        notes += profile_notes
        keeps_bytes = (  # Whether the file itself already is what would be stored.
            stored_format == "original"
            and header.source_format in ("jpeg", "png")
            and header.orientation == 1
            and not notes  # each stands for a conversion, or a file that few programs read
            and pixels is decoded.pixels  # neither resized nor converted
            and header.channels == count_channels(pixels)
        )
        if keeps_bytes:
            encoded, stored_format = data, header.source_format
        else:
            if stored_format == "original":
                stored_format = "png" if header.lossless else "jpeg"
            encoded = encode(pixels, stored_format, options.jpeg_quality)
        if header.channels != count_channels(pixels):  # The index would no longer tell.
            notes += ("gray",) if header.channels == 1 else ("color",)
    return PreparedImage(
        encoded=encoded,
        format=stored_format,
        height=pixels.shape[0],
        width=pixels.shape[1],
        channels=count_channels(pixels),
        source_format=header.source_format,
        source_height=header.height,
        source_width=header.width,
        orientation=header.orientation,
        notes=notes,
    )
