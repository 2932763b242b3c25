import itertools

import numpy as np
import pytest

from image_pipeline.show.box_overlay import NamedBoxes, color_of, draw_boxes

pytestmark = pytest.mark.unit


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
