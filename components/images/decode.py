"""Any image file to upright 8-bit pixels, or a `BadImage` that says why not."""

import io
import re
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)
from image_pipeline.components.images.by_extras import load_heic
from image_pipeline.components.images.color import composite, convert_to_srgb, orient
from image_pipeline.components.images.containers import (
    DEPTH,
    has_whole_pixels,
    misses_much,
    read_transparent_level,
    take_default_image,
)
from image_pipeline.components.images.header import (
    Header,
    check_size,
    open_image,
    read_header,
    read_size,
)
from image_pipeline.components.images.jpeg import (
    ARITHMETIC,
    expose_missing_data,
    read_jpeg_structure,
)
from image_pipeline.components.images.jpeg_holes import (
    check_holes,
    count_last_zeros,
    lacks_scans,
)
from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.images.npy import (
    NPY_MAGIC,
    ArrayHeader,
    name_type,
    read_array,
    read_array_header,
)
from image_pipeline.components.images.options import ALL_LEVELS, Levels, PrepareOptions
from image_pipeline.components.images.sound import decode_sound
from image_pipeline.components.images.tiff import decode_tiff_samples, read_tiff_layout

# The caller's threads, with an image each, already use all cores; OpenCV's own threads would only
# compete with them.
cv2.setNumThreads(0)
# A bad file is reported as a `BadImage`, so OpenCV's own log lines would only repeat it. The few
# lines that libjpeg and libpng print to stderr cannot be turned off from Python.
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # type: ignore[attr-defined]


_PNG_COLOR_TYPE, _PNG_GRAY_ALPHA = 25, 4
# What libjpeg says if pixels have no data, or wrong data. Its other warnings are about quirks of
# the software that wrote the file (unknown versions, stray bytes between segments).
_DAMAGED = re.compile(r"[Pp]remature end|bad Huffman|before marker 0xd[0-7]|instead of RST")
_DAMAGED_BETWEEN_SCANS = re.compile(r"before marker 0x(c4|da)")
_EXTRA_AT_END = re.compile(r"(\d+) extraneous bytes before marker 0xd9")
# This many of the zeros before the end marker may still belong to the last pixels.
_LAST_ZERO_BYTES = 8


class Pixels(NamedTuple):
    """Decoded but not yet converted pixels."""

    color: np.ndarray  # uint8 gray [height, width], or RGB or CMYK [height, width, channels]
    alpha: np.ndarray | None  # uint8 [height, width]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecodedImage:
    """Upright pixels and what was learned about the file on the way."""

    pixels: np.ndarray
    """Of the file's size, or of a fraction that `target_size` allows;
    uint8 gray [height, width], RGB [height, width, 3] or CMYK [height, width, 4]."""
    icc: bytes | None
    """Colour profile of `pixels`; None means sRGB. Not applied yet: that can cost 25 ns a pixel,
    more than decoding a JPEG, so the caller should shrink the image first."""
    header: Header
    """The file's. Its orientation is already applied."""
    notes: tuple[str, ...]
    """The header's and the decoder's."""


def decode_image(
    data: bytes, options: PrepareOptions, levels: Levels | None = None
) -> DecodedImage:
    """Decodes a file, whatever its name, and applies orientation and alpha.

    A file whose first frame is incomplete is always refused. A PNG's checksums find damage of its
    pixels. A JPEG has none: found are a broken marker structure, an invalid code, pixels without
    data, and zeros that no image has. Surplus bytes are noted. What only changes pixels goes
    unnoticed (docs/damage.md has the shares).

    Args:
      data: the whole file.
      options: its limits; the size that it will be resized to, since a JPEG of a multiple of that
        is decoded at a half, a quarter or an eighth of its own; and whether only gray is wanted,
        for which JPEGs skip their colour channels.
      levels: how colours of 16 bits become 8; None for the top 8 of all bits that the file has, and
        then arrays of uint16, of which nothing tells how many are used, are refused.

    Returns:
      The upright pixels, uint8, in the file's own colours.

    Raises:
      BadImage: the file is not a complete, readable image within the limits.
    """
    if data.startswith(NPY_MAGIC):
        return _decode_npy(data, options, levels)
    if options.sound is not None and tell_kind(data).name in ("wav", "flac"):
        pixels, source_format, notes = decode_sound(data, options.sound)
        height, width = pixels.shape
        check_size(height, width, options)
        header = Header(source_format, height, width, 1, 1, None, True, notes)
        return DecodedImage(pixels, None, header, notes)
    # The header by itself, so that what is too large is refused before it is decoded.
    with open_image(data) as image:
        height, width = read_size(image)
        check_size(height, width, options)
        header = read_header(image, data)
        icc, deep_levels = header.icc, levels or ALL_LEVELS
        # libjpeg-turbo decodes JPEGs, OpenCV every PNG and what `tiff` says: they are the faster
        # decoders, keep 16 bits, and refuse damage that they find. Pillow reads everything else,
        # except what has been opened `by_extras`.
        if header.source_format == "jpeg":
            # libjpeg averages blocks of pixels before it computes them, which takes half the time
            # for large photos. At least 1.5 times the target's sides are left to the resize: then
            # the result is as near to Pillow's antialiased resize as that of all pixels (0.2 gray
            # levels nearer, over 7 photos). Sides that are not multiples would be padded, and the
            # image stretched by a fraction of a pixel.
            target, reduction = options.choose_size(height, width), 1
            if not options.is_deep:
                factor = min(height / target[0], width / target[1])
                fits = (d for d in (8, 4, 2) if factor >= 1.5 * d and not (height % d or width % d))
                reduction = next(fits, 1)
            luma_only = options.color == "gray" and not options.is_deep and icc is None
            found = _decode_jpeg(data, image, luma_only, reduction)
        elif header.source_format == "png":
            found = _decode_png(data, image, deep_levels)
        elif header.source_format in ("jxl", "dicom"):
            found = Pixels(*image.read_shown(levels))  # type: ignore[attr-defined]
        elif header.source_format == "heic":
            notes = load_heic(image)
            found = _decode_with_pillow(image)
            found = found._replace(notes=notes + found.notes)
        else:
            decoded = None
            if image.format == "TIFF":  # What Pillow would spoil; the rarer ones are refused.
                decoded = decode_tiff_samples(data, image, read_tiff_layout(image))
                # By XMP Pillow would turn the pixels, but leave the size and all else as it was.
                image.info.pop("xmp", None)
            if decoded is None:
                found = _decode_with_pillow(image)
            else:
                decoded = _check_decoded(decoded, (image.height, image.width))
                found = _split_alpha(decoded, deep_levels)
    color, alpha, notes = found
    if alpha is not None:
        # The background is an sRGB colour, so the image has to become sRGB first.
        color, profile_notes = convert_to_srgb(color, icc)
        color, icc = composite(color, alpha, options.alpha_background), None
        notes += profile_notes
    if header.orientation > 1 and header.source_format != "tiff":  # Decoders turn TIFFs themselves.
        color = orient(color, header.orientation)
    return DecodedImage(pixels=color, icc=icc, header=header, notes=header.notes + notes)


def read_image_header(data: bytes) -> Header:
    """What a file says of itself, without decoding it; raises BadImage if it is not an image."""
    if data.startswith(NPY_MAGIC):
        return _describe_array(read_array_header(data))
    with open_image(data) as image:
        return read_header(image, data)


def open_array(data: bytes, options: PrepareOptions) -> tuple[ArrayHeader, Header]:
    """Reads the header of an array that is an image within the limits."""
    array = read_array_header(data)
    header = _describe_array(array)
    check_size(header.height, header.width, options)
    return array, header


def _describe_array(array: ArrayHeader) -> Header:
    if len(array.shape) not in (2, 3):
        message = f"an array of shape {array.shape}, but an image is [height, width(, channels)]"
        raise BadImage(UNSUPPORTED, message)
    height, width, channels = (*array.shape, 1)[:3]
    dtype = name_type(array.dtype)
    return Header("npy", height, width, channels, 1, None, True, (), dtype)


def _decode_npy(data: bytes, options: PrepareOptions, levels: Levels | None) -> DecodedImage:
    """Reads an array of gray or RGB pixels of 8 bits, or of 16 if `levels` scales them."""
    array, header = open_array(data, options)
    if array.dtype != "u1" and (array.dtype != "u2" or levels is None):
        message = f"an array of {name_type(array.dtype)}, but ingest.prepare.dtype=uint8"
        stretch = "ingest.prepare.depth=maximum makes 8 bits of it, and " * (array.dtype == "u2")
        stored = "uint16, float16 and float32 are stored, too"
        raise BadImage(UNSUPPORTED, f"{message}; {stretch}{stored}")
    if header.channels not in (1, 3):
        message = f"an array of shape {array.shape}, of which the last number is the channels"
        way_out = f"1 or 3 make a gray or RGB image; ingest.prepare.channels={header.channels}"
        first = "; np.moveaxis(images, 1, -1) brings channels last" * (array.shape[0] in (1, 3))
        raise BadImage(UNSUPPORTED, f"{message}; {way_out} stores others as they are{first}")
    pixels, notes = read_array(data, array), tuple[str, ...]()
    if pixels.dtype == np.uint16:
        pixels, notes = (levels or ALL_LEVELS).narrow(pixels), ("16bit",)
    color = pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels
    return DecodedImage(color, None, header, notes)


def _decode_jpeg(data: bytes, image: Image.Image, luma_only: bool, reduction: int) -> Pixels:
    """Decodes a JPEG of 1, 3 or 4 channels as it lies in the file, orientation not applied.

    Args:
      data: the whole file.
      image: its opened header.
      luma_only: whether to skip its colour.
      reduction: 1, 2, 4 or 8, which its sides are multiples of: how many times smaller than the
        file it is decoded; at four channels only 1.

    Returns:
      Pixels and notes: `extra_bytes` for a file that
      goes on where its pixels have ended. Some cameras write it so, but it may be that damage made
      the decoder lose its way. `missing_scans` for a progressive file that ends before its last
      details.

    Raises:
      BadImage: data is missing or damaged.
    """
    structure = read_jpeg_structure(data)
    notes: tuple[str, ...] = ("arithmetic",) if structure.frame_marker in ARITHMETIC else ()
    if image.mode == "CMYK":
        # Pillow does not report surplus bytes, so all zeros at the end are taken for padding.
        check_holes(data, structure, left_over=count_last_zeros(data, structure))
        data = expose_missing_data(data, structure)
        with call_decoder(Image.open, io.BytesIO(data), formats=("JPEG",)) as reopened:
            call_decoder(reopened.load)
            return Pixels(np.asarray(reopened), None, (*notes, "cmyk"))
    lacks_some = structure.scan_count > 1 and lacks_scans(data)
    notes += ("missing_scans",) * lacks_some
    gray = image.mode == "L" or luma_only
    height, width = image.height // reduction, image.width // reduction
    pixels: np.ndarray | None = None
    remark = ""
    # First by libjpeg-turbo's own interface: a tenth faster than through OpenCV, with the same
    # bits. It stops at any warning of libjpeg, and knows only the sampling that encoders use.
    try:
        pixels = call_decoder(
            simplejpeg.decode_jpeg,
            data,
            "GRAY" if gray else "RGB",
            min_height=height,
            min_width=width,
            min_factor=reduction,
            strict=True,
            errors=(ValueError,),
        )
        pixels = pixels[:, :, 0] if gray else pixels
    except BadImage as error:
        remark, has_scans = error.message, structure.scan_count > 1
        if _DAMAGED.search(remark) or (has_scans and _DAMAGED_BETWEEN_SCANS.search(remark)):
            raise
    found = _EXTRA_AT_END.search(remark)
    extra_bytes = int(found[1]) if found else 0
    check_holes(data, structure, left_over=extra_bytes)
    if found:
        # Padding begins where the pixels have ended. Zeros that the decoder took for the last
        # pixels, or whatever stands in place of scans that never came, are not padding.
        if lacks_some:
            message = "the JPEG data is whole only in part: its last scans are missing"
            rest = f"{extra_bytes} bytes of something else in their place"
            raise BadImage(TRUNCATED, f"{message}, {rest}")
        zeros = count_last_zeros(data, structure)
        if zeros - extra_bytes >= _LAST_ZERO_BYTES:
            message = f"{zeros} zero bytes before the end, of which {zeros - extra_bytes} as pixels"
            raise BadImage(CORRUPT, f"the JPEG data breaks off: {message}")
        notes += ("extra_bytes",)
    if remark:  # Then by OpenCV, which ignores warnings, but no missing data in files of one scan.
        flags = cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR_RGB
        exposed = np.frombuffer(expose_missing_data(data, structure), np.uint8)
        flags |= cv2.IMREAD_IGNORE_ORIENTATION
        pixels = call_decoder(cv2.imdecode, exposed, flags, errors=(cv2.error,))
        if pixels is not None and reduction > 1:
            pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    return Pixels(_check_decoded(pixels, (height, width)), None, notes)


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

    Returns:
      uint8 or uint16 gray [height, width], or [height, width, channels]: gray and alpha, BGR, or
      BGRA.
    """
    buffer, decoded = np.frombuffer(still, np.uint8), None
    if not misses_much(still):
        decoded = call_decoder(cv2.imdecode, buffer, cv2.IMREAD_UNCHANGED, errors=(cv2.error,))
    if decoded is None and b"IEND" not in data:
        raise BadImage(TRUNCATED, f"the PNG data ends at byte {len(data)} without an end chunk")
    if decoded is None and not has_whole_pixels(data):
        raise BadImage(CORRUPT, "a checksum of its pixels (IDAT) is wrong; copy the file again")
    pixels = _check_decoded(decoded, (image.height, image.width))
    # OpenCV repeats the gray of gray and alpha.
    return pixels[:, :, ::3] if data[_PNG_COLOR_TYPE] == _PNG_GRAY_ALPHA else pixels


def _check_decoded(pixels: np.ndarray | None, size: tuple[int, int]) -> np.ndarray:
    """Returns a decoder's pixels; raises if there are none, or not of the header's size."""
    if pixels is None:
        raise BadImage(CORRUPT, "the compressed data is damaged or ends before the last pixel")
    if pixels.shape[:2] != size:
        message = f"decoded to {pixels.shape[:2]}, but the header says {size}"
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
