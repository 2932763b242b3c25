import numpy as np
import pytest
from PIL import Image

from tests.notebooks.modules import load

pytestmark = [pytest.mark.unit, pytest.mark.wide]

draw_grid = load("grid").draw_grid


def test_pictures_stand_row_by_row_under_their_titles():
    pictures = np.stack([np.full((4, 6, 3), level, np.uint8) for level in (0, 100, 200)])
    cells = draw_grid(pictures, ["$a", "b", "c"], columns=2).get_axes()
    assert [cell.get_title() for cell in cells] == ["$a", "b", "c", ""]
    assert [cell.get_images()[0].get_array()[0, 0, 0] for cell in cells[:3]] == [0, 100, 200]
    assert not cells[3].get_images()
    assert not any(cell.axison for cell in cells)


def test_gray_pictures_keep_their_levels():
    (cell,) = draw_grid([Image.new("L", (4, 4), 100)], ["gray"], columns=1).get_axes()
    (shown,) = cell.get_images()
    assert shown.get_clim() == (0, 255)
    assert shown.get_cmap().name == "gray"


def test_rows_are_as_high_as_the_tallest_picture_and_its_title():
    wide, tall = np.zeros((3, 4), np.uint8), np.zeros((4, 3), np.uint8)
    heights = [
        draw_grid([wide, picture], ["a", title], columns=2).get_figheight()
        for picture, title in ((wide, "b"), (tall, "b"), (wide, "b\nc"))
    ]
    assert heights == pytest.approx([1.6 * 3 / 4 + 0.2, 1.6 * 4 / 3 + 0.2, 1.6 * 3 / 4 + 0.4])


@pytest.mark.parametrize(("pictures", "titles"), [(0, 0), (2, 1)])
def test_pictures_without_titles_are_refused(pictures, titles):
    with pytest.raises(ValueError, match=f"got {pictures} pictures and {titles} titles; give"):
        draw_grid([np.zeros((2, 2), np.uint8)] * pictures, ["title"] * titles)
