import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageCms

from image_pipeline.components.images import color
from image_pipeline.components.images.color import (
    MatrixTransform,
    build_matrix_transform,
    convert_to_srgb,
    note_other_orientation,
)
from tests.images import zoo
from tests.images.profiles import (
    ADOBE_RGB,
    PROPHOTO,
    curve,
    gamma,
    gray_profile,
    inverting_tables,
    littlecms,
    parametric,
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


LARGE_NOISE = np.random.default_rng(3).integers(0, 256, (301, 203, 3), np.uint8)
ADOBE_S_OWN = rgb_profile(ADOBE_RGB, [gamma(2.19921875)] * 3)
APPLE = rgb_profile(ADOBE_RGB, [gamma(1.8)] * 3)
SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
CURVES = {
    "straight": curve(),
    "table": table_curve(2.1),
    "table_of_two": curve(0, 65535),
    "falling_table": curve(65535, 30000, 0),
    "parametric_0": parametric(0, 2.2),
    "parametric_1": parametric(1, 2.2, 1.1, -0.1),
    "parametric_2": parametric(2, 2.2, 1.1, -0.1, 0.0),
    "parametric_3": parametric(3, *SRGB_CURVE),
    "parametric_4": parametric(4, 2.4, 0.95, 0.05, 0.08, 0.05, 0.01, 0.0),
    "above_white": parametric(1, 2.2, 1.3, -0.1),
}


def build(icc):
    return build_matrix_transform(icc, littlecms(icc))


@pytest.mark.parametrize("name", CURVES)
def test_every_kind_of_curve_gives_the_pixels_of_littlecms(name):
    icc = rgb_profile(ADOBE_RGB, [CURVES[name]] * 3)
    np.testing.assert_array_equal(build(icc)(LARGE_NOISE), littlecms(icc)(LARGE_NOISE))


@given(
    exponents=st.lists(st.floats(0.6, 4.0), min_size=3, max_size=3),
    primaries=st.sampled_from([ADOBE_RGB, PROPHOTO]),
    shift=st.floats(-0.02, 0.02),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_gammas_and_primaries_give_the_pixels_of_littlecms(exponents, primaries, shift, seed):
    icc = rgb_profile(np.array(primaries) + shift, [gamma(each) for each in exponents])
    pixels = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), np.uint8)
    np.testing.assert_array_equal(build(icc)(pixels), littlecms(icc)(pixels))


def test_the_pixels_are_those_of_the_definition():
    """Gamma, matrix and sRGB curve in floating point, without LittleCMS and its tables."""
    to_xyz = np.array(ADOBE_RGB).T
    # IEC 61966-2-1's matrix, adapted to D50 by Bradford's method (brucelindbloom.com).
    from_xyz = [[3.13386, -1.61687, -0.49061], [-0.97877, 1.91614, 0.03345]]
    from_xyz += [[0.07195, -0.22899, 1.40524]]
    light = np.clip((LARGE_NOISE / 255) ** 2.19921875 @ (from_xyz @ to_xyz).T, 0, 1)
    powered = 1.055 * light ** (1 / 2.4) - 0.055
    expected = 255 * np.where(light > 0.0031308, powered, 12.92 * light)
    assert np.abs(build(ADOBE_S_OWN)(LARGE_NOISE) - expected).max() < 1


def test_known_colors():
    colors = np.array([[[0, 0, 0], [255, 255, 255], [0, 255, 0], [128, 128, 128]]], np.uint8)
    assert build(ADOBE_S_OWN)(colors).tolist() == [[[0] * 3, [255] * 3, [0, 255, 0], [129] * 3]]
    assert build(APPLE)(colors)[0, 3].tolist() == [146] * 3


def test_light_that_ends_on_a_half_is_rounded_up():
    """The blue light of this colour is such a sum; rounded to even it would be level 13."""
    pixels = np.array([[[0, 180, 46]]], np.uint8)
    assert littlecms(ADOBE_S_OWN)(pixels).tolist() == [[[0, 181, 14]]]
    assert build(ADOBE_S_OWN)(pixels).tolist() == [[[0, 181, 14]]]


@pytest.mark.parametrize("shape", [(1, 1), (1, 40_000), (40_000, 1), (181, 182)])
def test_images_of_any_shape_are_converted_whole(shape):
    pixels = np.resize(LARGE_NOISE, (*shape, 3))
    np.testing.assert_array_equal(build(ADOBE_S_OWN)(pixels), littlecms(ADOBE_S_OWN)(pixels))


def test_strided_and_read_only_pixels_are_converted_and_kept():
    pixels = LARGE_NOISE[::2, ::-1]
    pixels.flags.writeable = False
    before = pixels.copy()
    np.testing.assert_array_equal(build(ADOBE_S_OWN)(pixels), build(ADOBE_S_OWN)(before))
    np.testing.assert_array_equal(pixels, before)


def test_threads_may_share_a_transform():
    transform = build(ADOBE_S_OWN)
    expected = transform(LARGE_NOISE).tobytes()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: transform(LARGE_NOISE).tobytes(), range(32)))
    assert set(results) == {expected}


def test_equal_curves_share_one_table():
    assert build(ADOBE_S_OWN).linear.shape == (256, 1, 1)
    mixed = rgb_profile(ADOBE_RGB, [gamma(1.8), gamma(2.2), gamma(1.8)])
    assert build(mixed).linear.shape == (256, 1, 3)


@pytest.mark.parametrize(
    "icc",
    [
        pytest.param(rgb_profile(ADOBE_RGB, [table_curve(2.1, black=3000)] * 3), id="lifted_black"),
        pytest.param(
            rgb_profile(ADOBE_RGB, [gamma(2.2)] * 3, {b"A2B0": inverting_tables()}), id="tables"
        ),
    ],
)
def test_what_littlecms_computes_in_another_way_is_left_to_it(icc):
    assert build(icc) is None


@pytest.mark.parametrize("color", [(0, 0, 0), (255, 255, 255), (17, 17, 17), (0, 99, 0)])
def test_one_level_of_difference_in_one_color_is_too_much(color):
    def differ(pixels):
        result = littlecms(ADOBE_S_OWN)(pixels).copy()
        result[(pixels == color).all(axis=-1), 1] ^= 1
        return result

    assert build_matrix_transform(ADOBE_S_OWN, differ) is None


def _without(tag):
    return ADOBE_S_OWN.replace(tag, b"none", 1)


@pytest.mark.parametrize(
    "icc",
    [
        pytest.param(b"", id="empty"),
        pytest.param(ADOBE_S_OWN[:140], id="cut_in_the_directory"),
        pytest.param(_without(b"gTRC"), id="no_green_curve"),
        pytest.param(_without(b"bXYZ"), id="no_blue_primary"),
        pytest.param(rgb_profile(ADOBE_RGB, [parametric(9, 2.2)] * 3), id="unknown_curve"),
        pytest.param(rgb_profile(ADOBE_RGB, [b"text" + bytes(10)] * 3), id="text_for_a_curve"),
        pytest.param(rgb_profile(ADOBE_RGB, [curve(1, 2, 3)[:-2]] * 3)[:-2], id="cut_curve"),
        pytest.param(rgb_profile(ADOBE_RGB, [parametric(1, 2.2, 0.0, 0.1)] * 3), id="zero_slope"),
    ],
)
def test_a_profile_without_whole_curves_and_primaries_has_no_transform(icc):
    assert build_matrix_transform(icc, littlecms(ADOBE_S_OWN)) is None
