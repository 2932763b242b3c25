"""DICOM files, by pydicom, and imagecodecs for compressed ones: as viewers show them, or as stored.

What a viewer shows (PS3.3, C.11): the stored numbers become the modality's by its slope and
intercept or its table, these become gray by the window or the table of values of interest, and gray
is inverted where the lowest is white.
"""

import struct
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    NOT_AN_IMAGE,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)
from image_pipeline.components.images.dicom_elements import Elements, call_pydicom, read_elements
from image_pipeline.components.images.options import Levels

_READ = (
    *("SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames"),
    *("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
    *("RedPaletteColorLookupTableDescriptor", "RedPaletteColorLookupTableData"),
    *("GreenPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableData"),
    *("BluePaletteColorLookupTableDescriptor", "BluePaletteColorLookupTableData"),
    *("SegmentedRedPaletteColorLookupTableData", "SegmentedGreenPaletteColorLookupTableData"),
    *("SegmentedBluePaletteColorLookupTableData", "ICCProfile", "ModalityLUTSequence"),
    *("RescaleIntercept", "RescaleSlope", "WindowCenter", "WindowWidth", "VOILUTFunction"),
    *("VOILUTSequence", "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"),
    *("ExtendedOffsetTable", "ExtendedOffsetTableLengths"),
    *("PixelData", "FloatPixelData", "DoubleFloatPixelData"),
)
_NUMBERS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
_PIXEL_DATA = (b"\xe0\x7f\x10\0", b"\x7f\xe0\0\x10")  # its tag, in either order of bytes
_ITEMS = (b"\xfe\xff\0\xe0", b"\xff\xfe\xe0\0")  # of sequences, and the parts of compressed pixels
_MOST_ITEMS = 100_000
# Of an enhanced file's frames, which have these by themselves.
_OF_FRAMES = ("PixelValueTransformationSequence", "FrameVOILUTSequence")
_GRAY = ("MONOCHROME1", "MONOCHROME2")
_COLORS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT", "PALETTE COLOR")
# Transfer syntaxes (PS3.6, annex A). What is deflated as a whole, plain numbers, run lengths, and
# JPEG (lossy, of 12 bits, lossless), JPEG-LS and JPEG 2000, each by a function of imagecodecs.
_DEFLATED = b"1.2.840.10008.1.2.1.99"
_PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_RUN_LENGTHS = "1.2.840.10008.1.2.5"
_OF_JPEG = "1.2.840.10008.1.2.4."
_CODECS = {
    **{f"{_OF_JPEG}{number}": "jpeg8_decode" for number in (50, 51, 57, 70)},
    **{f"{_OF_JPEG}{number}": "jpegls_decode" for number in (80, 81)},
    **{f"{_OF_JPEG}{number}": "jpeg2k_decode" for number in (90, 91)},
}
_END = b"\xfe\xff\xdd\xe0\0\0\0\0"  # what stands behind compressed pixels
_LOSSY = tuple(f"{_OF_JPEG}{number}" for number in (50, 51, 81, 91))
_CONVERT = "convert it, for example with DCMTK: dcm2img FILE FILE.png"


@dataclass(frozen=True)
class DicomImage:
    """An opened file, with the attribute names of Pillow's `Image`."""

    elements: Elements
    syntax: str
    height: int
    """In pixels."""
    width: int
    color: str
    """Its photometric interpretation."""
    bits: int
    """Of each number, as stored."""
    n_frames: int
    format: ClassVar[str] = "DICOM"

    @property
    def mode(self) -> str:
        """`L` or `RGB`."""
        return "L" if self.color in _GRAY else "RGB"

    @property
    def is_lossless(self) -> bool:
        """Whether its compression has cost no detail."""
        return self.syntax not in _LOSSY

    @property
    def info(self) -> dict[str, Any]:
        """The colour profile, if it has one."""
        icc = self.elements.read_data("ICCProfile")
        return {"icc_profile": icc} if icc and self.mode == "RGB" else {}

    def read_samples(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Decodes the first frame to the modality's numbers, with all their bits.

        Returns:
          As they are stored, uint8, uint16, int16 … or float32 [height, width]; float64 where a
          slope and intercept apply, uint16 where a table does; or RGB, uint8 or uint16
          [height, width, 3]. And notes: `white_is_zero` if the lowest number is white.

        Raises:
          BadImage: the data is damaged.
        """
        notes = ("white_is_zero",) if self.color == "MONOCHROME1" else ()
        return _read_samples(self), notes

    def read_shown(self, levels: Levels | None = None) -> tuple[np.ndarray, None, tuple[str, ...]]:
        """Decodes the first frame as a viewer shows it.

        Args:
          levels: how colours of up to 16 bits become 8, and gray ones that have no window: how far
            they are above the darkest number that can be stored; None for all that can be.

        Returns:
          uint8 gray [height, width], or RGB [height, width, 3]; no alpha; and notes: `window`
          where one, or a table in its place, was applied, else `16bit` where numbers have more
          than 8 bits.

        Raises:
          BadImage: the data is damaged, or nothing says which of its numbers is black.
        """
        shown, notes = _show(self, _read_samples(self), levels)
        if shown.dtype != np.uint8:
            shown = np.floor(255 * np.clip(shown, 0, 1) + 0.5).astype(np.uint8)
        return shown, None, notes


def open_dicom(data: bytes) -> DicomImage:
    """Reads what a file says of its pixels, without decoding them.

    Raises:
      BadImage: it is damaged, has no pixels, or such that are not read.
    """
    if _DEFLATED in data:  # pydicom would unpack it, however large it gets.
        raise BadImage(UNSUPPORTED, f"a deflated DICOM file; {_CONVERT}")
    if sum(data.count(tag) for tag in _ITEMS) > _MOST_ITEMS:  # pydicom takes 13 µs for each.
        message = f"a DICOM file of more than {_MOST_ITEMS:,} items and fragments"
        raise BadImage(UNSUPPORTED, f"{message}; {_CONVERT}")
    elements = read_elements(data, _READ)
    for frames in ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"):
        for frame in elements.list_items(frames)[:1]:
            for name in _OF_FRAMES:
                for values in frame.list_items(name)[:1]:
                    call_pydicom(elements.dataset.update, values.dataset)
    syntax = Elements(elements.dataset.file_meta).read_text("TransferSyntaxUID")
    color = elements.read_text("PhotometricInterpretation")
    if all(elements.get(name) is None for name in _NUMBERS):
        # pydicom leaves out what does not end.
        if any(tag in data for tag in _PIXEL_DATA):
            raise BadImage(TRUNCATED, "the DICOM file ends within its pixels, or has none of them")
        message = "a DICOM file without pixels, such as a report, a plan or a drawing"
        raise BadImage(NOT_AN_IMAGE, message)
    image = DicomImage(
        elements,
        syntax,
        elements.read_count("Rows", 1, 2**16 - 1),
        elements.read_count("Columns", 1, 2**16 - 1),
        color,
        elements.read_count("BitsStored", 1, 64, default=64),
        elements.read_count("NumberOfFrames", 1, 2**31 - 1, default=1),
    )
    if syntax not in (*_PLAIN, _RUN_LENGTHS, *_CODECS):
        message = "a DICOM file whose compression (transfer syntax) is not read"
        raise BadImage(UNSUPPORTED, f"{message}; {_CONVERT}")
    compressed = elements.read_data("PixelData") if syntax not in _PLAIN else b""
    if compressed and not data.startswith(_END, data.find(compressed) + len(compressed)):
        raise BadImage(TRUNCATED, "the DICOM file ends within its compressed pixels")
    if color not in (*_GRAY, *_COLORS):
        message = "a DICOM file of a rare PhotometricInterpretation"
        raise BadImage(UNSUPPORTED, f"{message}; {_CONVERT}")
    return image


def _read_samples(image: DicomImage) -> np.ndarray:
    """As `DicomImage.read_samples`."""
    from pydicom.pixels import apply_color_lut, pixel_array

    elements = image.elements
    if image.syntax in _CODECS:
        pixels = _decode_frame(image)
    else:
        _check_length(image)
        plugin = "pydicom" if image.syntax == _RUN_LENGTHS else ""  # whatever else is installed
        pixels = call_pydicom(pixel_array, elements.dataset, index=0, decoding_plugin=plugin)
    if image.color == "PALETTE COLOR":
        return call_pydicom(apply_color_lut, pixels, elements.dataset)
    if image.color not in _GRAY:
        return pixels
    if tables := elements.list_items("ModalityLUTSequence"):
        return _look_up(pixels, _read_table(elements, tables[0]))
    slope, intercept = _read_line(elements)
    if (slope, intercept) == (1, 0):
        return pixels
    with np.errstate(over="ignore"):  # What becomes infinite is refused by whoever stores it.
        return pixels * np.float64(slope) + np.float64(intercept)


def _check_length(image: DicomImage) -> None:
    """Raises `BadImage` if numbers that are not compressed end early."""
    if image.syntax == _RUN_LENGTHS or image.elements.get("PixelData") is None:
        return  # pydicom compares the length itself
    bits = image.elements.read_count("BitsAllocated", 1, 64)
    channels = image.elements.read_count("SamplesPerPixel", 1, 4)
    # Two pixels share their colours.
    in_pixel = bits * 2 if image.color == "YBR_FULL_422" else bits * channels
    wanted = -(-image.height * image.width * image.n_frames * in_pixel // 8)
    data = image.elements.read_data("PixelData")
    if len(data) < wanted:
        message = f"the DICOM file has {len(data)} bytes of pixels, but its header says {wanted}"
        raise BadImage(TRUNCATED, message)


def _decode_frame(image: DicomImage) -> np.ndarray:
    """Decodes the first frame of JPEG's family to stored numbers, or RGB.

    Not by pydicom's plugins: GDCM ends the process at some damaged files (3.2.6), and pylibjpeg is
    licensed under the GPL.
    """
    import imagecodecs
    from pydicom.encaps import get_frame
    from pydicom.pixels import convert_color_space

    elements, codec = image.elements, _CODECS[image.syntax]
    data = elements.read_data("PixelData")
    frame = call_pydicom(get_frame, data, 0, number_of_frames=image.n_frames)
    channels = elements.read_count("SamplesPerPixel", 1, 4)
    own, stated = _read_frame_shape(frame), (image.height, image.width, channels)
    if own != stated:
        message = f"its compressed pixels are {own}, height, width and channels"
        raise BadImage(CORRUPT, f"{message}, but its header says {stated}")
    settings: dict[str, Any] = {}
    if codec == "jpeg8_decode" and channels == 3:
        is_rgb = image.color == "RGB"
        settings = {"colorspace": "rgb" if is_rgb else "ycbcr", "outcolorspace": "rgb"}
    pixels = call_decoder(getattr(imagecodecs, codec), frame, **settings)
    if pixels.shape != stated[: pixels.ndim] or pixels.dtype.kind not in "iu":
        raise BadImage(CORRUPT, f"decoded to {pixels.dtype} {pixels.shape}, not to {stated}")
    if channels > 1:  # JPEG 2000 undoes transforms of its own (YBR_RCT and YBR_ICT) by itself.
        is_rgb = image.color != "YBR_FULL" or codec == "jpeg8_decode"
        return pixels if is_rgb else call_pydicom(convert_color_space, pixels, image.color, "RGB")
    # The codes of negative numbers, which not all kinds of compression know as such.
    bits, is_signed = min(image.bits, 32), elements.read_count("PixelRepresentation", 0, 1, 0)
    codes = pixels.astype(np.int64) & (2**bits - 1)
    if is_signed:
        codes -= (codes >> (bits - 1)) << bits
    wide = 1 if bits <= 8 else 2 if bits <= 16 else 4
    return codes.astype(f"{'i' if is_signed else 'u'}{wide}")


def _read_frame_shape(frame: bytes) -> tuple[int, int, int]:
    """Height, width and channels that a JPEG, JPEG-LS or JPEG 2000 says itself.

    Its decoder believes them, and asks for so much memory.
    """
    begin = frame.find(b"\xff\x4f\xff\x51")
    if not frame.startswith(b"\xff\xd8") and 0 <= begin <= len(frame) - 42:
        right, bottom, left, top = struct.unpack_from(">4I", frame, begin + 8)
        (channels,) = struct.unpack_from(">H", frame, begin + 40)
        return bottom - top, right - left, channels
    at = 2
    while frame.startswith(b"\xff\xd8") and at + 10 <= len(frame) and frame[at] == 0xFF:
        marker = frame[at + 1]
        if marker == 0xF7 or (0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)):
            height, width, channels = struct.unpack_from(">2HB", frame, at + 5)
            return height, width, channels
        at += 1 if marker == 0xFF else 2 + int.from_bytes(frame[at + 2 : at + 4], "big")
    raise BadImage(CORRUPT, "its compressed pixels do not say of which size they are")


def _show(
    image: DicomImage, samples: np.ndarray, levels: Levels | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """From the modality's numbers to 0 for black, 1 for white, or uint8 of `levels`; and notes."""
    elements = image.elements
    if image.color not in _GRAY:
        is_palette = image.color == "PALETTE COLOR"
        bits = 8 * samples.dtype.itemsize if is_palette else image.bits
        if levels is not None and bits > 8:
            return levels.narrow(samples), ("16bit",)
        return samples / (2**bits - 1), ("16bit",) if bits > 8 else ()
    samples = samples.astype(np.float64)
    if not np.isfinite(samples).all():
        raise BadImage(CORRUPT, "some of its numbers are NaN or infinite")
    notes: tuple[str, ...] = ("window",)
    center, width = (elements.read_number(name) for name in ("WindowCenter", "WindowWidth"))
    if tables := elements.list_items("VOILUTSequence"):
        table = _read_table(elements, tables[0])
        shown = _look_up(samples, table) / (2**table.bits - 1)
    elif center is not None and width is not None:
        curve = elements.read_text("VOILUTFunction") or "LINEAR"
        shown = _apply_window(samples, center, width, curve)
    else:
        black, white, bits = _find_range(image)
        shown = (samples - black) / (white - black)
        notes = ("16bit",) if image.bits > 8 else ()
        if levels is not None and 8 < bits <= 16:
            narrowed = levels.narrow(np.rint(shown * (2**bits - 1)).astype(np.uint16))
            return 255 - narrowed if image.color == "MONOCHROME1" else narrowed, notes
    return 1 - shown if image.color == "MONOCHROME1" else shown, notes


def _find_range(image: DicomImage) -> tuple[float, float, int]:
    """What the lowest and the highest number become that can be stored, and their bits."""
    elements = image.elements
    if elements.get("PixelData") is None:
        message = "a DICOM file of numbers with fractions, and no window says which is black"
        way_out = "ingest.prepare={dtype: float32, encoding: raw} keeps them"
        raise BadImage(UNSUPPORTED, f"{message}; {way_out}")
    if tables := elements.list_items("ModalityLUTSequence"):
        bits = _read_table(elements, tables[0]).bits
        return 0, 2**bits - 1, bits
    is_signed = elements.read_count("PixelRepresentation", 0, 1, default=0)
    lowest = -(2 ** (image.bits - 1)) if is_signed else 0
    slope, intercept = _read_line(elements)
    ends = [slope * stored + intercept for stored in (lowest, lowest + 2**image.bits - 1)]
    return min(ends), max(ends), image.bits


def _read_line(elements: Elements) -> tuple[float, float]:
    """Slope and intercept from stored numbers to the modality's."""
    slope, intercept = map(elements.read_number, ("RescaleSlope", "RescaleIntercept"))
    if slope is None or intercept is None:
        return 1, 0
    if slope == 0 or not np.isfinite([slope, intercept]).all():
        raise BadImage(CORRUPT, "its RescaleSlope or RescaleIntercept is not a number that can be")
    return slope, intercept


def _apply_window(samples: np.ndarray, center: float, width: float, curve: str) -> np.ndarray:
    """PS3.3, C.11.2.1.2 and C.11.2.1.3: 0 for black, 1 for white, and beyond."""
    if curve not in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        raise BadImage(UNSUPPORTED, f"a DICOM file of a rare VOILUTFunction; {_CONVERT}")
    least = 1 if curve == "LINEAR" else np.finfo(float).tiny
    if not (np.isfinite([center, width]).all() and width >= least):
        raise BadImage(CORRUPT, "the width of its window is too small, or no number")
    if curve == "LINEAR":
        center, width = center - 0.5, width - 1
    if not width:  # a window of one number, above which all is white
        return (samples > center).astype(float)
    with np.errstate(over="ignore"):
        part = (samples - center) / width
    return 1 / (1 + np.exp(np.clip(-4 * part, -700, 700))) if curve == "SIGMOID" else part + 0.5


class _Table(NamedTuple):
    """What numbers become from `first` on; others become the first or the last of them."""

    values: np.ndarray
    first: int
    bits: int


def _read_table(elements: Elements, item: Elements) -> _Table:
    descriptor, data = item.read_numbers("LUTDescriptor"), item.read_data("LUTData")
    if len(descriptor) != 3 or not np.isfinite(descriptor).all():
        raise BadImage(CORRUPT, "a table without its length, first number and bits")
    count, first, bits = (int(number) for number in descriptor)
    count = count or 2**16
    if not data:
        values = np.asarray(item.read_numbers("LUTData"))
    elif len(data) <= count + 1:
        values = np.frombuffer(data, "u1")
    else:
        order = "<" if elements.dataset.original_encoding[1] else ">"
        values = np.frombuffer(data[: len(data) // 2 * 2], f"{order}u2")
    values = np.clip(values[:count], 0, 2**16 - 1).astype(np.uint16)
    if not 0 < count == len(values) or not 8 <= bits <= 16:
        raise BadImage(CORRUPT, f"a table of {len(values)} of {count} values of {bits} bits")
    return _Table(values, first, bits)


def _look_up(numbers: np.ndarray, table: _Table) -> np.ndarray:
    last = len(table.values) - 1
    indices = np.floor(numbers.astype(np.float64)) - table.first  # uint8 would wrap around
    return table.values[np.clip(indices, 0, last).astype(np.int64)]
