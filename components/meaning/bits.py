"""Whether images have more bits than are stored, judged by some of them before any is ingested."""

import itertools
from collections.abc import Iterable

import cv2
import numpy as np

from image_pipeline.components import files
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.depth import ALL_LEVELS, DepthOptions
from image_pipeline.components.images.png import DEPTH as PNG_DEPTH
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.sources.references import ImageRef, Source

_ENDINGS = (".png", ".tif", ".tiff")  # whose images may have over 8 bits
_LOOKED_FOR = 2000  # references, among which some such images are
_LOOKED_AT = 8
_HEAD_BYTES = 32


def find_lost_bits(refs: Iterable[ImageRef], source: Source, options: PrepareOptions) -> str:
    """What is lost where images of over 8 bits are stored with 8, as a sentence; "" if nothing is.

    Args:
      refs: the images, of which a few are read.
      source: what reads them.
      options: how they are to be stored.
    """
    high = options.depth.high
    if options.dtype != "uint8" or isinstance(high, str):  # Nothing is lost.
        return ""
    if not files.is_local(source.root):  # Each costs a request there.
        return ""
    some = itertools.islice(refs, _LOOKED_FOR)
    may_be = [r for r in some if r.problem is None and r.path.lower().endswith(_ENDINGS)]
    looked_at = may_be[:: max(1, len(may_be) // _LOOKED_AT)][:_LOOKED_AT]
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
