import io

import numpy as np
import pytest
from PIL import ImageCms

from image_pipeline.components.images import color
from image_pipeline.components.images.color import MatrixTransform, convert_to_srgb
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
