"""DICOM as a viewer shows it; pydicom's own functions judge, and the standard's formulas."""

import io
import logging
from functools import partial

import imagecodecs
import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.pixels import apply_color_lut, apply_modality_lut, apply_voi_lut, pixel_array
from pydicom.uid import DeflatedExplicitVRLittleEndian, ImplicitVRLittleEndian, JPEGBaseline8Bit

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    NOT_AN_IMAGE,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.images.options import DepthOptions
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from tests.images import zoo
from tests.images.extra_files import make_table, save_dicom

pytestmark = pytest.mark.unit

AS_IS = PrepareOptions(resize="none", encoding="raw")
GRAY = AS_IS.model_copy(update={"color": "gray"})
LEVELS = np.arange(-512, 512, dtype=np.int16).reshape(32, 32)
CT = {"RescaleSlope": 2, "RescaleIntercept": -1024, "BitsStored": 12, "HighBit": 11}


def prepare(data: bytes, **options: object) -> tuple[np.ndarray, tuple[str, ...]]:
    image = prepare_image(data, GRAY.model_copy(update=options))
    assert image.source_format == "dicom"
    dtype = "u1" if image.format == "raw" else image.format.removeprefix("raw_")
    pixels = np.frombuffer(image.encoded, dtype)
    shape = (image.height, image.width, image.channels)
    return pixels.reshape(shape if shape[2] > 1 else shape[:2]), image.notes


def judge(data: bytes) -> np.ndarray:
    """The first frame by pydicom alone, as 0 to 255."""
    dataset = pydicom.dcmread(io.BytesIO(data))
    pixels = pixel_array(dataset, index=0)
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        return np.floor(apply_color_lut(pixels, dataset) / 65_535 * 255 + 0.5)
    if dataset.SamplesPerPixel == 3:
        return np.floor(pixels / (2**dataset.BitsStored - 1) * 255 + 0.5)
    bits, signed = dataset.BitsStored, dataset.PixelRepresentation
    ends = np.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] if signed else [0, 2**bits - 1])
    if "ModalityLUTSequence" not in dataset:
        ends = apply_modality_lut(ends, dataset)
    shown = apply_voi_lut(apply_modality_lut(pixels, dataset), dataset)
    if "VOILUTSequence" in dataset:
        ends = np.array([0, 2 ** dataset.VOILUTSequence[0].LUTDescriptor[2] - 1])
    share = (shown.astype(float) - ends.min()) / np.ptp(ends)
    if dataset.PhotometricInterpretation == "MONOCHROME1":
        share = 1 - share
    return np.floor(255 * share + 0.5)


TABLES = b"\x28\0\x10\x30SQ\0\0\xff\xff\xff\xff"  # a VOILUTSequence begins
WINDOWS = {
    "linear": {"WindowCenter": 40, "WindowWidth": 400},
    "several": {"WindowCenter": [40, -600], "WindowWidth": [400, 1500]},
    "of one number": {"WindowCenter": 40, "WindowWidth": 1},
    "exact": {"WindowCenter": -100, "WindowWidth": 0.5, "VOILUTFunction": "LINEAR_EXACT"},
    "sigmoid": {"WindowCenter": 10.5, "WindowWidth": 300, "VOILUTFunction": "SIGMOID"},
    "table": {"VOILUTSequence": [make_table(-1000, [0, *range(0, 4000, 7), 4095], 12)]},
    "none": {},
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("color", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("rescale", [{}, CT, CT | {"RescaleSlope": 0.5}])
def test_gray_is_what_pydicom_makes_of_it(window, color, rescale):
    elements = rescale | WINDOWS[window] | {"PhotometricInterpretation": color}
    data = save_dicom(LEVELS, **elements)
    pixels, notes = prepare(data)
    assert np.array_equal(pixels, judge(data))
    assert notes == (("window",) if WINDOWS[window] else ("16bit",))


@pytest.mark.parametrize("color", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("rescale", [{}, CT, CT | {"RescaleSlope": -0.5}])
@pytest.mark.parametrize("is_signed", [True, False])
def test_what_has_no_window_is_stretched_from_the_darkest_number_on(color, rescale, is_signed):
    stored = LEVELS if is_signed else (LEVELS + 512).astype(np.uint16)
    elements = rescale | {"PhotometricInterpretation": color}
    data, options = save_dicom(stored, **elements), DepthOptions(low=100, high=900)
    pixels, notes = prepare(data, depth=options)
    dataset = pydicom.dcmread(io.BytesIO(data))
    bits = dataset.BitsStored
    ends = np.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] if is_signed else [0, 2**bits - 1])
    darkest = apply_modality_lut(ends, dataset).min()
    above = (apply_modality_lut(pixel_array(dataset), dataset) - darkest) / abs(
        rescale.get("RescaleSlope", 1)
    )
    expected = np.floor((np.clip(above, 100, 900) - 100) * 255 / 800 + 0.5)
    assert np.array_equal(pixels, 255 - expected if color == "MONOCHROME1" else expected)
    assert notes == ("16bit",)
    shown = save_dicom(stored, **elements, **WINDOWS["linear"])
    assert np.array_equal(prepare(shown, depth=options)[0], prepare(shown)[0])


def test_colours_of_more_bits_are_stretched():
    stored = np.arange(96, dtype=np.uint16).reshape(4, 8, 3) * 40
    data = save_dicom(stored, PhotometricInterpretation="RGB", BitsStored=12, HighBit=11)
    image = prepare_image(data, AS_IS.model_copy(update={"depth": DepthOptions(high=2000)}))
    expected = np.floor(np.minimum(stored, 2000) * 255.0 / 2000 + 0.5)
    assert np.array_equal(np.frombuffer(image.encoded, np.uint8), expected.ravel())


def test_a_window_by_hand():
    """PS3.3, C.11.2.1.2.1: centre 2048, width 4096 becomes 0 to 255 for 0 to 4095."""
    stored = np.array([[0, 1, 2047, 2048, 4094, 4095]], np.uint16)
    elements = {"WindowCenter": 2048, "WindowWidth": 4096}
    pixels, _ = prepare(save_dicom(stored, **elements))
    assert pixels.tolist() == [[0, 0, 127, 128, 255, 255]]
    inverted, _ = prepare(save_dicom(stored, PhotometricInterpretation="MONOCHROME1", **elements))
    assert inverted.tolist() == [[255, 255, 128, 127, 0, 0]]


def test_a_table_of_the_modality():
    table = make_table(-2, [100, 50, 25, 0], 8)
    stored = np.array([[-9, -2, -1, 0, 1, 9]], np.int16)
    data = save_dicom(stored, ModalityLUTSequence=[table])
    assert prepare(data)[0].tolist() == [[100, 100, 50, 25, 0, 0]]
    assert prepare(data, dtype="uint16")[0].tolist() == [[100, 100, 50, 25, 0, 0]]


@pytest.mark.parametrize("first", [2, 300])
def test_a_table_that_begins_above_the_numbers(first):
    stored = np.array([[0, 1, 2, 3, 9]], np.uint8)
    pixels, _ = prepare(save_dicom(stored, ModalityLUTSequence=[make_table(first, [7, 9], 8)]))
    assert pixels.tolist() == [[7, 7, 7, 9, 9] if first == 2 else [7] * 5]


def test_an_enhanced_file_has_window_and_slope_by_frame():
    frames = np.arange(8, dtype=np.uint16).reshape(2, 2, 2)
    shared, first, second = Dataset(), Dataset(), Dataset()
    values, window, other = Dataset(), Dataset(), Dataset()
    values.RescaleSlope, values.RescaleIntercept = 10, -10
    window.WindowCenter, window.WindowWidth = 0.5, 41
    other.WindowCenter, other.WindowWidth = 900, 2
    shared.PixelValueTransformationSequence = [values]
    first.FrameVOILUTSequence, second.FrameVOILUTSequence = [window], [other]
    data = save_dicom(
        frames[0],
        NumberOfFrames=2,
        PixelData=frames.tobytes(),
        SharedFunctionalGroupsSequence=[shared],
        PerFrameFunctionalGroupsSequence=[first, second],
    )
    pixels, notes = prepare(data)
    assert pixels.tolist() == [[64, 128], [191, 255]]  # of -10, 0, 10, 20 between -20 and 20
    assert notes == ("frames:2", "window")


@pytest.mark.parametrize(
    ("elements", "dtype", "expected", "notes"),
    [
        ({}, "float32", LEVELS, ()),
        (WINDOWS["linear"], "float32", LEVELS, ()),
        (CT, "float32", LEVELS * 2.0 - 1024, ("float64",)),
        ({"PhotometricInterpretation": "MONOCHROME1"}, "float32", LEVELS, ("white_is_zero",)),
    ],
)
def test_other_types_keep_the_modality_s_numbers(elements, dtype, expected, notes):
    pixels, noted = prepare(save_dicom(LEVELS, **elements), dtype=dtype)
    assert np.array_equal(pixels, expected) and noted == notes


@pytest.mark.parametrize(
    "name",
    [
        *("693_J2KI.dcm", "MR_small.dcm", "MR_small_RLE.dcm", "MR_small_bigendian.dcm"),
        *("MR_small_implicit.dcm", "MR_small_jp2klossless.dcm", "J2K_pixelrep_mismatch.dcm"),
        *("examples_jpeg2k.dcm", "SC_rgb_jpeg_dcmtk.dcm", "SC_rgb_dcmtk_+eb+cy+np.dcm"),
        *("JPEG2000.dcm", "examples_palette.dcm", "CT_small.dcm", "SC_rgb_rle_16bit_2frame.dcm"),
    ],
)
def test_pydicom_s_own_examples(name):
    with open(get_testdata_file(name, download=False), "rb") as file:
        data = file.read()
    pixels, _ = prepare(data, color="rgb")
    expected = judge(data)
    assert np.array_equal(pixels, expected if expected.ndim == 3 else np.dstack([expected] * 3))


_LOSSLESS_JPEG = partial(imagecodecs.jpeg8_encode, lossless=True, bitspersample=16)
_JPEG_12 = partial(imagecodecs.jpeg8_encode, level=100, bitspersample=12)


@pytest.mark.parametrize(
    ("number", "encode", "bits", "off"),
    [
        (51, _JPEG_12, 12, 2),
        (57, _LOSSLESS_JPEG, 16, 0),
        (70, _LOSSLESS_JPEG, 16, 0),
        (80, imagecodecs.jpegls_encode, 16, 0),
        (90, partial(imagecodecs.jpeg2k_encode, reversible=True, codecformat="j2k"), 16, 0),
    ],
)
@pytest.mark.parametrize("is_signed", [False, True])
def test_compressed_numbers_are_the_plain_ones(number, encode, bits, off, is_signed):
    codes = (LEVELS if is_signed else LEVELS + 512).astype(np.uint16) & (2**bits - 1)
    if off and is_signed:
        codes = np.arange(2048, 3072, dtype=np.uint16).reshape(32, 32)  # without a jump to smear
    frame = encode(codes)
    data = save_dicom(
        codes,
        f"1.2.840.10008.1.2.4.{number}",
        **{"PixelData": encapsulate([frame]), "BitsStored": bits, "HighBit": bits - 1},
        **{"PixelRepresentation": int(is_signed), "RescaleSlope": 1, "RescaleIntercept": 0.5},
    )
    values = codes.astype(int)
    values -= (values >> (bits - 1)) * 2**bits if is_signed else 0
    pixels, _ = prepare(data, dtype="float32")
    assert np.abs(pixels - (values + 0.5)).max() <= off
    for end in (len(data) - 1, len(data) - 9, len(data) - len(frame) // 2):
        with pytest.raises(BadImage) as caught:
            prepare(data[:end])
        assert caught.value.reason == TRUNCATED


def test_every_cut_is_noticed_and_no_patient_is_named(caplog, capfd):
    data = save_dicom(np.zeros((4, 4), np.uint16), **CT, **WINDOWS["linear"])
    assert b"Secret^Name" in data
    with caplog.at_level(logging.DEBUG):
        for end in range(132, len(data)):
            with pytest.raises(BadImage) as caught:
                prepare(data[:end])
            assert "ecret" not in str(caught.value)
    assert "ecret" not in caplog.text + "".join(capfd.readouterr())


def test_nothing_of_a_patient_is_stored():
    stored = prepare_image(save_dicom(zoo.PATTERN), PrepareOptions(encoding="original"))
    assert stored.format == "png" and b"ecret" not in stored.encoded


FRAGMENTS = get_testdata_file("MR_small_jp2klossless.dcm", download=False)


def test_a_frame_that_says_another_size_is_refused_undecoded():
    with open(FRAGMENTS, "rb") as file:
        data = file.read()
    at = data.index(b"\xff\x4f\xff\x51") + 8
    with pytest.raises(BadImage, match=r"\(64, 60000, 1\), height, width and channels") as caught:
        prepare(data[:at] + (60_000).to_bytes(4, "big") + data[at + 4 :])
    assert caught.value.reason == CORRUPT


@pytest.mark.parametrize(
    ("settings", "reason", "said"),
    [
        ({"syntax": DeflatedExplicitVRLittleEndian}, UNSUPPORTED, "a deflated DICOM file"),
        (
            {"syntax": "1.2.840.10008.1.2.4.100", "PixelData": encapsulate([b"MPEG"])},
            UNSUPPORTED,
            r"compression \(transfer syntax\)",
        ),
        ({"syntax": JPEGBaseline8Bit, "PixelData": encapsulate([b"JPEG"])}, CORRUPT, "which size"),
        ({"PixelData": b"12"}, TRUNCATED, "2 bytes of pixels, but its header says 2048"),
        ({"PixelData": b""}, TRUNCATED, "or has none"),
        ({"BitsStored": 0}, CORRUPT, "BitsStored is not a whole number from 1 to 64"),
        ({"RescaleSlope": 0, "RescaleIntercept": 0}, CORRUPT, "RescaleSlope"),
        ({"VOILUTSequence": [Dataset()]}, CORRUPT, "a table without"),
        ({"Rows": 60_000, "Columns": 60_000}, "too_many_pixels", "60000x60000 px"),
        ({"NumberOfFrames": 3}, TRUNCATED, "2048 bytes of pixels, but its header says 6144"),
        ({"WindowCenter": 0, "WindowWidth": 0}, CORRUPT, "the width of its window"),
        ({"PhotometricInterpretation": "CIELab"}, UNSUPPORTED, "rare PhotometricInterpretation"),
        ({"WindowCenter": 0, "WindowWidth": 5, "VOILUTFunction": "X"}, UNSUPPORTED, "VOILUTFunc"),
    ],
)
def test_what_is_refused(settings, reason, said):
    with pytest.raises(BadImage, match=said) as caught:
        prepare(save_dicom(LEVELS, **settings))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("items", "reason", "said"),
    [
        (b"\xfe\xff\0\xe0\0\0\0\0" * 100_001, UNSUPPORTED, "more than 100,000 items"),
        ((b"\xfe\xff\0\xe0" + b"\xff" * 4 + TABLES) * 20_000, CORRUPT, "RecursionError"),
    ],
)
def test_sequences_without_end_are_refused_at_once(items, reason, said):
    data = save_dicom(LEVELS)
    at = data.index(b"\xe0\x7f\x10\0")
    with pytest.raises(BadImage, match=said) as caught:
        prepare(data[:at] + TABLES + items + data[at:])
    assert caught.value.reason == reason


def test_a_report_is_no_image():
    with (
        open(get_testdata_file("test-SR.dcm", download=False), "rb") as file,
        pytest.raises(BadImage, match="without pixels") as caught,
    ):
        prepare(file.read())
    assert caught.value.reason == NOT_AN_IMAGE


def test_a_file_that_begins_as_a_tiff_is_read_as_dicom():
    data = save_dicom(zoo.PATTERN, syntax=ImplicitVRLittleEndian)
    pixels, _ = prepare(b"II*\0" + data[4:], color="rgb")
    assert np.array_equal(pixels, zoo.PATTERN)
