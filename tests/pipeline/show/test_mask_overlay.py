import numpy as np
import pytest

from image_pipeline.show.mask_overlay import lay_over, make_colors

pytestmark = pytest.mark.unit


def test_each_id_has_a_colour_of_its_own_as_pascal_voc_has():
    colors = make_colors()
    # Of VOC's colour map: aeroplane, bicycle, bird, boat.
    assert colors[:4].tolist() == [[128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128]]
    assert len(np.unique(colors[:255], axis=0)) == 255


def test_masks_that_were_given_by_colours_keep_them():
    classes = {"sky": "#8080ff", "road": ["#804080", "#000000"]}
    assert make_colors({"classes": classes})[:3].tolist() == [
        [128, 128, 255],
        [128, 64, 128],
        make_colors()[2].tolist(),
    ]
    for other in (None, ["sky"], {"sky": 3}):
        np.testing.assert_array_equal(make_colors({"classes": other}), make_colors())


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_of_no_class_stay_as_they_are(channels):
    pixels = np.full((1, 2, channels), 100, np.uint8)
    mask = np.array([[[0], [255]]], np.uint8)
    shown = lay_over(pixels, mask, make_colors())
    # 0.45 · 100 + 0.55 · 128 = 115.4
    assert shown.tolist() == [[[115, 45, 45], [100, 100, 100]]]
