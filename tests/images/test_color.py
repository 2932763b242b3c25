import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageCms

from image_pipeline.components.images import color
from image_pipeline.components.images.color import (
    MatrixTransform,
    convert_to_srgb,
    note_other_orientation,
)
from tests.images import zoo
from tests.images.profiles import (
    ADOBE_RGB,
    gamma,
    gray_profile,
    inverting_tables,
    littlecms,
    rgb_profile,
    table_curve,
)

pytestmark = pytest.mark.unit

NOISE = np.random.default_rng(5).integers(0, 256, (61, 83, 3), np.uint8)
ADOBE = rgb_profile(ADOBE_RGB, [gamma(2.2)] * 3)
LIFTED = rgb_profile(ADOBE_RGB, [table_curve(2.1, black=3000)] * 3)
TABLES = rgb_profile(ADOBE_RGB, [gamma(2.2)] * 3, {b"A2B0": inverting_tables()})


def _srgb_primaries():
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    core = ImageCms.ImageCmsProfile(io.BytesIO(srgb)).profile
    return [each[0] for each in (core.red_colorant, core.green_colorant, core.blue_colorant)]


@pytest.mark.parametrize(
    "icc",
    [
        pytest.param(ADOBE, id="matrix"),
        pytest.param(LIFTED, id="lifted_black"),
        pytest.param(TABLES, id="tables"),
        pytest.param(rgb_profile(_srgb_primaries(), [gamma(1.0)] * 3), id="only_curves"),
    ],
)
def test_a_profile_gives_the_pixels_of_littlecms_whichever_way_it_is_applied(icc):
    pixels, notes = convert_to_srgb(NOISE, icc)
    np.testing.assert_array_equal(pixels, littlecms(icc)(NOISE))
    assert notes == ("icc",)
    assert (pixels != NOISE).any()


def test_a_matrix_profile_takes_the_fast_way_and_others_do_not():
    assert isinstance(color._srgb_transform(ADOBE, "RGB"), MatrixTransform)
    assert not isinstance(color._srgb_transform(LIFTED, "RGB"), MatrixTransform)


@pytest.mark.parametrize("tone_curve", [gamma(1.8), table_curve(2.5, black=900)])
def test_gray_profiles_give_the_pixels_of_littlecms(tone_curve):
    icc, gray = gray_profile(tone_curve), np.ascontiguousarray(NOISE[:, :, 0])
    pixels, notes = convert_to_srgb(gray, icc)
    np.testing.assert_array_equal(pixels, littlecms(icc, "L")(gray))
    assert notes == ("icc",)
    assert pixels.shape == (61, 83, 3)


def test_a_gray_profile_brightens_by_its_curve():
    pixels, _ = convert_to_srgb(np.full((1, 2), 128, np.uint8), gray_profile(gamma(1.8)))
    assert pixels.tolist() == [[[146] * 3] * 2]


def test_cmyk_with_an_rgb_profile_is_converted_as_if_it_had_none():
    ink = np.dstack([NOISE, NOISE[:, :, 0]])
    pixels, notes = convert_to_srgb(ink, ADOBE)
    np.testing.assert_array_equal(pixels, convert_to_srgb(ink, None)[0])
    assert notes == ("icc_broken",)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_both_places_are_read(orientation: int):
    raw = zoo.make_raw_profile(zoo.make_exif(orientation))
    notes = note_other_orientation({"xmp": zoo.make_xmp(orientation), "Raw profile type exif": raw})
    expected = (f"raw_exif_orientation:{orientation}", f"xmp_orientation:{orientation}")
    assert notes == (expected if orientation > 1 else ())


@pytest.mark.parametrize(
    "xmp",
    [
        b"<tiff:Orientation>3</tiff:Orientation>",
        b"tiff:Orientation='3'",
        '<rdf:Description tiff:Orientation = "3"/>',
    ],
)
def test_every_way_to_write_it_in_xmp(xmp: bytes | str):
    assert note_other_orientation({"xmp": xmp}) == ("xmp_orientation:3",)


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"xmp": b'tiff:Orientation="12"'},
        {"xmp": b"no xmp"},
        {"xmp": 2**40},
        {"Raw profile type exif": "exif 3 zz"},
        {"Raw profile type exif": "\nexif\n 5\n0102030\n"},
        {"Raw profile type exif": zoo.make_raw_profile(b"Exif\0\0MM\0*")},
    ],
)
def test_nothing_is_made_of_nothing(info: dict):
    assert note_other_orientation(info) == ()


@given(st.text(max_size=80), st.binary(max_size=80))
def test_no_text_breaks_it(text: str, exif: bytes):
    note_other_orientation({"xmp": text, "Raw profile type exif": text})
    note_other_orientation({"xmp": exif, "Raw profile type exif": zoo.make_raw_profile(exif)})
