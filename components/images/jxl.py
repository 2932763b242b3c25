"""JPEG XL files, by imagecodecs: libjxl, which decodes at once, so headers are read here.

libjxl turns pixels upright as the codestream says, and EXIF counts for nothing, as the format has
it. imagecodecs gives no colour profile; so what is not sRGB is not shown, except a JPEG that was
packed without loss, which names its own. (pillow-jxl-plugin would give profiles, but is licensed
under the GPL, and decodes a file before it says how large it is.)
"""

import functools
import io
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)
from image_pipeline.components.images.options import Levels

_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
_MOST_BOXES = 10_000
_HEADER_BYTES = 4096  # of a codestream: far more than its header takes
_CONVERT = "convert it, for example: djxl FILE FILE.png"
# ISO/IEC 18181-1: width by height of a header that has only its height (table in 8.2).
_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_ALPHA, _SPOT_COLOR, _COLOR_FILTER = 0, 2, 5  # kinds of extra channels
_PREMULTIPLIED = -1  # alpha by which colours were multiplied
_RGB, _GRAY = 0, 1  # of the colour spaces
_D65, _SRGB_PRIMARIES, _SRGB_CURVE = 1, 1, 13


@dataclass(frozen=True, repr=False)
class JxlImage:
    """An opened file, with the attribute names of Pillow's `Image`."""

    data: bytes
    height: int
    """In pixels, upright."""
    width: int
    mode: str
    """`L`, `LA`, `RGB` or `RGBA`."""
    bits: int
    """Of each value; 0 of numbers with fractions."""
    is_srgb: bool
    is_lossless: bool
    holds_jpeg: bool
    """Whether a JPEG's own data is kept, which can be written again bit for bit."""
    format: ClassVar[str] = "JXL"

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """The colour profile, if a JPEG within has one."""
        if not self.holds_jpeg:
            return {}
        import imagecodecs

        jpeg = call_decoder(imagecodecs.jpegxl_decode_jpeg, self.data)
        with call_decoder(Image.open, io.BytesIO(jpeg), formats=("JPEG",)) as image:
            icc = image.info.get("icc_profile")
            return {"icc_profile": icc} if icc else {}

    def read_shown(
        self, levels: Levels | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
        """Decodes the pixels to 8 bits.

        Args:
          levels: how colours of more become 8; None for all values of as many bits.

        Returns:
          uint8 gray [height, width] or RGB [height, width, 3]; alpha, uint8 [height, width]; and
          notes.

        Raises:
          BadImage: as of `read_samples`; or its levels or colours are not known.
        """
        if not self.bits:
            message = "a JPEG XL of numbers with fractions; ingest.prepare={dtype: float32,"
            raise BadImage(UNSUPPORTED, f"{message} encoding: raw}} may keep them")
        if not (self.is_srgb or self.holds_jpeg):
            message = "a JPEG XL of other colours than sRGB, whose profile its decoder hides"
            raise BadImage(UNSUPPORTED, f"{message}; {_CONVERT}")
        samples, _ = self.read_samples()
        own, notes = Levels(0, 2**self.bits - 1), ("16bit",) if self.bits > 8 else ()
        levels = levels if levels is not None and self.bits > 8 else own
        if not self.mode.endswith("A"):
            return levels.narrow(samples), None, notes
        color, alpha = samples[:, :, 0 if self.mode == "LA" else slice(3)], samples[:, :, -1]
        return levels.narrow(color, alpha), own.narrow(alpha), (*notes, "alpha")

    def read_samples(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Decodes the pixels with all their bits.

        Returns:
          uint8, uint16, float16 or float32 [height, width(, channels)], upright: gray or RGB, and
          alpha if there is one. Of 10 bits 0 to 1023, and so on. And notes: `icc_unused` if its
          colours are not sRGB's.

        Raises:
          BadImage: the data is damaged or ends early.
        """
        import imagecodecs

        try:
            # Without an index it would decode twice, to count frames.
            pixels = call_decoder(imagecodecs.jpegxl_decode, self.data, index=0, numthreads=1)
        except BadImage as error:
            is_cut = "NEED_MORE_INPUT" in error.message
            raise BadImage(TRUNCATED if is_cut else CORRUPT, error.message) from error
        shape = (self.height, self.width, len(self.mode))
        if pixels.shape != (shape if shape[2] > 1 else shape[:2]):
            message = f"decoded to {pixels.shape}, but the header says {shape}"
            raise BadImage(CORRUPT, message)
        return pixels, () if self.is_srgb or self.info else ("icc_unused",)


def open_jxl(data: bytes) -> JxlImage:
    """Reads the header of a file.

    Raises:
      BadImage: it is damaged, or of colours or channels that are not read.
    """
    start, holds_jpeg = _find_codestream(data)
    bits = _Bits(start)
    if bits.read(16) != 0x0AFF:
        raise BadImage(CORRUPT, "the JPEG XL codestream does not begin as one")
    height, width = _read_size(bits)
    is_default = bits.read(1)
    orientation, depth, extra, is_lossy, space, is_srgb = 1, 8, [], True, 0, True
    if not is_default:
        if bits.read(1):
            orientation = 1 + bits.read(3)  # As EXIF numbers it.
            if bits.read(1):  # the size at which to show it
                _read_size(bits)
            if bits.read(1) or bits.read(1):
                message = "a JPEG XL with a preview, or with several frames"
                raise BadImage(UNSUPPORTED, f"{message}; {_CONVERT}")
        depth = _read_depth(bits)
        bits.read(1)  # whether 16 bits suffice to decode it
        extra = [_read_channel(bits) for _ in range(bits.choose(0, 1, (2, 4), (1, 12)))]
        is_lossy = bool(bits.read(1))
        space, is_srgb = _read_color_space(bits)
    if space not in (_RGB, _GRAY) or extra not in ([], [(_ALPHA, depth)]) or depth > 16:
        message = (
            "a JPEG XL of other channels than gray or RGB, and alpha of the same 16 bits at most"
        )
        raise BadImage(UNSUPPORTED, f"{message}; {_CONVERT}")
    if orientation > 4:
        height, width = width, height
    mode = ("L" if space == _GRAY else "RGB") + "A" * len(extra)
    is_lossless = not (is_lossy or holds_jpeg)
    return JxlImage(data, height, width, mode, depth, is_srgb, is_lossless, holds_jpeg)


def _find_codestream(data: bytes) -> tuple[bytes, bool]:
    """The first bytes of the codestream, and whether a JPEG was packed.

    Raises:
      BadImage: the boxes end before there is one.
    """
    if not data.startswith(_CONTAINER):
        return data[:_HEADER_BYTES], False
    at, found, holds_jpeg = len(_CONTAINER), b"", False
    for _ in range(_MOST_BOXES):
        if at + 8 > len(data):
            break
        size, kind = struct.unpack_from(">I4s", data, at)
        head = 8
        if size == 1 and at + 16 <= len(data):
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        end = at + size if size else len(data)
        if end < at + head:
            raise BadImage(CORRUPT, f"a box of the JPEG XL file has {size} bytes")
        holds_jpeg = holds_jpeg or kind == b"jbrd"
        if kind in (b"jxlc", b"jxlp"):
            begin = at + head + 4 * (kind == b"jxlp")  # A part begins with its number.
            found += data[begin : min(end, begin + _HEADER_BYTES - len(found))]
        at = end
    else:
        raise BadImage(UNSUPPORTED, f"a JPEG XL of more than {_MOST_BOXES:,} boxes; {_CONVERT}")
    if at > len(data):
        raise BadImage(TRUNCATED, f"the JPEG XL file ends at byte {len(data)} of {at}")
    return found, holds_jpeg


class _Bits:
    """Reads numbers from the lowest bit of each byte on (ISO/IEC 18181-1, annex B)."""

    def __init__(self, data: bytes):
        self._number, self._left = int.from_bytes(data, "little"), 8 * len(data)

    def read(self, count: int) -> int:
        if count > self._left:
            raise BadImage(TRUNCATED, "the JPEG XL file ends within its header")
        self._left -= count
        value = self._number & ((1 << count) - 1)
        self._number >>= count
        return value

    def choose(self, *options: int | tuple[int, int]) -> int:
        """A number that two bits choose: one of four, or an offset and so many bits more."""
        option = options[self.read(2)]
        return option if isinstance(option, int) else option[0] + self.read(option[1])

    def read_enum(self) -> int:
        return self.choose(0, 1, (2, 4), (18, 6))


def _read_size(bits: _Bits) -> tuple[int, int]:
    """Height and width, before orientation."""
    is_small = bits.read(1)

    def read_side() -> int:
        if is_small:
            return 8 * (1 + bits.read(5))
        return 1 + bits.read((9, 13, 18, 30)[bits.read(2)])

    height, ratio = read_side(), bits.read(3)
    if not ratio:
        return height, read_side()
    across, down = _RATIOS[ratio - 1]
    return height, height * across // down


def _read_depth(bits: _Bits) -> int:
    """The bits of a value; 0 if it is a number with fractions."""
    if not bits.read(1):
        return bits.choose(8, 10, 12, (1, 6))
    bits.choose(32, 16, 24, (1, 6))
    bits.read(4)
    return 0


def _read_channel(bits: _Bits) -> tuple[int, int]:
    """What an extra channel is, and the bits of its values."""
    if bits.read(1):
        return _ALPHA, 8
    kind, depth = bits.read_enum(), _read_depth(bits)
    bits.choose(0, 3, 4, (1, 3))
    for _ in range(bits.choose(0, (0, 4), (16, 5), (48, 10))):
        bits.read(8)  # of its name
    if kind == _SPOT_COLOR:
        bits.read(64)
    if kind == _COLOR_FILTER:
        bits.choose(1, (0, 2), (3, 4), (19, 8))
    is_premultiplied = kind == _ALPHA and bits.read(1)
    return _PREMULTIPLIED if is_premultiplied else kind, depth


def _read_color_space(bits: _Bits) -> tuple[int, bool]:
    """Which it is, and whether its colours are sRGB's."""
    if bits.read(1):
        return _RGB, True
    has_profile, space = bits.read(1), bits.read_enum()
    if has_profile or space not in (_RGB, _GRAY) or bits.read_enum() != _D65:
        return space, False
    if space == _RGB and bits.read_enum() != _SRGB_PRIMARIES:
        return space, False
    return space, not bits.read(1) and bits.read_enum() == _SRGB_CURVE
