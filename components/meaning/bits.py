"""Whether images have more bits than are stored, judged by some of them before any is ingested."""

import itertools
from collections.abc import Iterable

import cv2
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.by_extras import open_by_extra
from image_pipeline.components.images.containers import DEPTH as PNG_DEPTH
from image_pipeline.components.images.options import ALL_LEVELS, DepthOptions
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.sources.references import ImageRef, Source

_ENDINGS = (".png", ".tif", ".tiff")  # whose images may have over 8 bits
_LOOKED_FOR = 2000  # references, among which some such images are
_LOOKED_AT = 8
_HEAD_BYTES = 32
_FEW_LEVELS = 128  # of 256


def find_lost_bits(refs: Iterable[ImageRef], source: Source, options: PrepareOptions) -> str:
    """What images of over 8 bits lose where they are stored with 8, as a sentence; or ""."""
    high = options.depth.high
    if options.dtype != "uint8" or isinstance(high, str):  # Nothing is lost.
        return ""
    if not files.is_local(source.root):  # Each costs a request there.
        return ""
    looked_at = _draw_some(refs, _ENDINGS)
    highest = [level for ref in looked_at if (level := _find_highest(ref, source, options))]
    if not highest:
        return ""
    most = max(highest)
    found = (
        f"{len(highest)} of {len(looked_at)} images that were looked at have 16 bits, with values "
        f"up to {most:,}"
    )
    if options.depth != DepthOptions():
        return f"{found}: all above ingest.prepare.depth.high={high} become 255" * (most > high)
    levels = 1 + int(ALL_LEVELS.narrow(np.array([most], np.uint16))[0])
    stretch = "ingest.prepare.depth=maximum spreads them over all; " * (levels < 256)
    return (
        f"{found}: they are stored with 8, where {levels:,} of 256 levels are left; {stretch}"
        "ingest.prepare={dtype: uint16, encoding: raw} keeps every value"
    )


def find_windowless(refs: Iterable[ImageRef], source: Source, options: PrepareOptions) -> str:
    """What is lost of DICOM files that say no window, as a sentence; "" if nothing is."""
    is_stated = options.dtype != "uint8" or options.depth != DepthOptions()
    if is_stated or not files.is_local(source.root):
        return ""
    looked_at = _draw_some(refs, (".dcm",))
    levels = [found for ref in looked_at if (found := _count_windowless(ref, source, options))]
    if not levels or min(levels) > _FEW_LEVELS:
        return ""
    return (
        f"{len(levels)} of {len(looked_at)} DICOM files that were looked at say no window, so that "
        f"all numbers that they could have become 0 to 255: {min(levels)} of these 256 levels "
        "are used by one; ingest.prepare.depth=maximum spreads them over all; "
        "ingest.prepare={dtype: float32, encoding: raw} keeps the numbers"
    )


def _draw_some(refs: Iterable[ImageRef], endings: tuple[str, ...]) -> list[ImageRef]:
    some = itertools.islice(refs, _LOOKED_FOR)
    may_be = [r for r in some if r.problem is None and r.path.lower().endswith(endings)]
    return may_be[:: max(1, len(may_be) // _LOOKED_AT)][:_LOOKED_AT]


def _count_windowless(ref: ImageRef, source: Source, options: PrepareOptions) -> int:
    """How many levels a file has that says no window; 0 of any other, and of a damaged one."""
    try:
        image = open_by_extra(source.read(ref, options.max_file_bytes))
        if image is None or image.format != "DICOM":
            return 0
        pixels, _, notes = image.read_shown()
    except (BadImage, OSError):  # Ingest will say what is wrong with it.
        return 0
    return np.unique(pixels).size if "16bit" in notes else 0


def _find_highest(ref: ImageRef, source: Source, options: PrepareOptions) -> int:
    """The highest value of an image of over 8 bits; 0 of any other, and of one that is damaged."""
    try:
        head = source.read(ref, _HEAD_BYTES)
        if head.startswith(b"\x89PNG") and (len(head) <= PNG_DEPTH or head[PNG_DEPTH] != 16):
            return 0
        data = np.frombuffer(source.read(ref, options.max_file_bytes), np.uint8)
        pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except (BadImage, OSError, cv2.error):  # Ingest will say what is wrong with it.
        return 0
    if pixels is None or pixels.dtype != np.uint16:
        return 0
    has_alpha = pixels.ndim == 3 and pixels.shape[2] == 4
    return int(pixels[..., :3].max() if has_alpha else pixels.max())
