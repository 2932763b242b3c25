"""HEIC files, which phones write, by pillow-heif: libheif, and libde265 for the pixels.

Its turns and mirrors (`irot`, `imir`) are applied with the pixels, and EXIF's orientation, which
says the same again, is not, as the format has it; so the header's orientation is 1.
"""

import io

from PIL import Image

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)

# HEVC has no three zeros in a row, so these are a download that has ended.
_NO_DATA = bytes(64)
_CONVERT = "convert it, for example: heif-dec FILE FILE.png"


def open_heic(data: bytes) -> Image.Image:
    """Opens a file without decoding its pixels, and without registering anything with Pillow.

    Raises:
      BadImage: its boxes are damaged, or it holds no image that is read.
    """
    import pillow_heif

    options = pillow_heif.options
    # The caller's threads use all cores; only the image itself is looked at.
    options.DECODE_THREADS = 1
    options.THUMBNAILS = options.DEPTH_IMAGES = options.AUX_IMAGES = False
    if data.endswith(_NO_DATA):
        raise BadImage(TRUNCATED, "the HEIC file ends with zeros, where its pixels should be")
    try:
        return call_decoder(pillow_heif.HeifImageFile, io.BytesIO(data))
    except BadImage as error:
        raise _explain(error) from error


def load_heic(image: Image.Image) -> tuple[str, ...]:
    """Decodes an opened file to 8 bits.

    Returns:
      The note `10bit` or `12bit`, if it had more.

    Raises:
      BadImage: the pixels are damaged, or of another size than the header says.
    """
    size, bits = image.size, image.info["bit_depth"]
    try:
        call_decoder(image.load)
    except BadImage as error:
        raise _explain(error) from error
    if image.size != size:
        raise BadImage(CORRUPT, f"decoded to {image.size}, but the header says {size}")
    return (f"{bits}bit",) if bits > 8 else ()


def _explain(error: BadImage) -> BadImage:
    """In the words of ingest what libheif says of a file."""
    if "end of file" in error.message or "Cannot read full" in error.message:
        return BadImage(TRUNCATED, error.message)
    if "not identified" in error.message:
        return BadImage(UNSUPPORTED, f"a HEIF file without an image of HEVC; {_CONVERT}")
    if "Unsupported" in error.message or "Security limit" in error.message:
        return BadImage(UNSUPPORTED, f"{error.message}; {_CONVERT}")
    return error
