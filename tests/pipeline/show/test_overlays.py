import itertools

import numpy as np
import pytest

from image_pipeline.show.overlays import (
    NamedBoxes,
    color_of,
    draw_boxes,
    lay_over,
    make_colors,
    show_values,
)

pytestmark = pytest.mark.unit


def test_8_bit_gray_and_rgb_are_shown_as_they_are():
    for channels in (1, 3):
        pixels = np.arange(12 * channels, dtype=np.uint8).reshape(3, 4, channels)
        np.testing.assert_array_equal(show_values(pixels), pixels)


def test_others_go_from_black_to_white():
    pixels = np.array([[[-3.0], [1.0], [5.0]]], np.float16)
    assert show_values(pixels).tolist() == [[[0], [128], [255]]]
    assert show_values(pixels).dtype == np.uint8


def test_the_first_three_channels_are_shown_or_the_first():
    deep = np.arange(10, dtype=np.uint16).reshape(1, 2, 5)
    assert show_values(deep).tolist() == [[[0, 36, 73], [182, 219, 255]]]
    assert show_values(deep[..., :2]).tolist() == [[[0], [255]]]
    assert show_values(deep.astype(np.uint8)).tolist() == [[[0, 1, 2], [5, 6, 7]]]


def test_one_value_everywhere_is_black():
    assert not show_values(np.full((2, 2, 1), 7.5, np.float32)).any()


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


def _boxes(*places, names=None):
    return NamedBoxes(
        np.array(places, np.float32).reshape(-1, 4),
        tuple(range(len(places))),
        tuple(names or ["x"] * len(places)),
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_a_box_is_drawn_around_its_pixels(channels):
    pixels = np.full((20, 40, channels), 7, np.uint8)
    shown = draw_boxes(pixels, _boxes([0.25, 0.5, 0.75, 0.75]))
    expected = np.full((20, 40, 3), 7, np.uint8)
    expected[5:15, 20:30] = color_of(0)
    expected[6:14, 21:29] = 7
    np.testing.assert_array_equal(shown, expected)
    assert pixels.max() == 7


def test_boxes_at_the_sides_and_without_width_are_seen():
    shown = draw_boxes(np.zeros((10, 10, 3), np.uint8), _boxes([0, 0, 1, 1], [1, 0.5, 1, 0.5]))
    assert (shown[0] == color_of(0)).all() and (shown[9, :5] == color_of(0)).all()
    assert tuple(shown[9, 5]) == color_of(1)


def test_a_small_box_is_drawn_over_a_large_one():
    small, large = [0.4, 0.4, 0.6, 0.6], [0.4, 0.4, 1, 1]
    for places in ((small, large), (large, small)):
        shown = draw_boxes(np.zeros((10, 10, 3), np.uint8), _boxes(*places))
        assert tuple(shown[4, 4]) == color_of(places.index(small))


def test_names_are_written_on_pictures_that_have_room():
    for side, is_named in ((119, False), (120, True)):
        plain, named = (
            draw_boxes(np.zeros((side, side, 3), np.uint8), _boxes([0.5, 0, 1, 1], names=[name]))
            for name in ("ant", "bee")
        )
        assert np.array_equal(plain, named) is not is_named
        assert plain[: side // 2].any() == is_named  # above the box


def test_colours_of_neighbouring_ids_differ():
    colors = [color_of(number) for number in range(30)]
    assert len(set(colors)) == 30
    assert min(np.abs(np.subtract(*pair)).max() for pair in itertools.pairwise(colors)) > 100


def test_without_boxes_nothing_is_drawn():
    pixels = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    np.testing.assert_array_equal(draw_boxes(pixels, _boxes()), pixels)
