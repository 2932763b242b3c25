"""Lists of several columns with white space between, as CelebA and DeepFashion have them."""

import pytest

from image_pipeline.components.errors import UserError
from tests.layouts.drawn import boxes_of, column_of, draw_images, understand

pytestmark = pytest.mark.unit


def _write_list(folder, *lines):
    names = [f"{n}.png" for n in range(4)]
    draw_images(folder / "images", names)
    (folder / "list.txt").write_text("\n".join(lines) + "\n")
    return folder / "list.txt"


@pytest.mark.parametrize("count", [[], ["4"]])
@pytest.mark.parametrize("image", ["", "image_id "])
def test_a_list_with_a_line_of_names_is_a_table(tmp_path, count, image):
    tags = ["1 -1", "-1 1", "1  1", "-1 -1"]
    rows = (f"{n}.png {each}" for n, each in enumerate(tags))
    listing = understand(_write_list(tmp_path, *count, f"{image}Male Young", *rows))
    assert list(column_of(listing, "label").values()) == [
        ["Male"],
        ["Young"],
        ["Male", "Young"],
        [],
    ]
    assert listing.noticed == ()


def test_a_list_says_where_it_is_cut_off(tmp_path):
    rows = (f"{n}.png  {n} 2 10 12" for n in range(4))
    listing = understand(_write_list(tmp_path, "5", "image_id x_1 y_1 width height", *rows))
    assert boxes_of(listing)["3.png"] == [("object", 3, 2, 10, 12)]
    assert listing.noticed == ("list.txt: the first line says 5 rows, it has 4",)
    rows = ["3.png 1", *(f"{n}.png {n} 2 10 12" for n in range(3))]
    listing = understand(_write_list(tmp_path, "4", "image_id x y w h", *rows[1:], rows[0]))
    assert [ref.message.partition(": ")[2] for ref in listing.refs() if ref.problem] == [
        "its columns are 5, image_id, x, y, w, h, but it has 2"
    ]


@pytest.mark.parametrize("notes", [[], ["#Image CLASS-ID SPECIES BREED", "#ID: 1:37 Class ids"]])
def test_a_list_of_several_numbers_asks_which_is_the_label(tmp_path, notes):
    listed = _write_list(
        tmp_path, *notes, *(f"{n}.png {1 + n % 2} {1 + n // 2} 3" for n in range(4))
    )
    with pytest.raises(
        UserError, match=r"for 'column_2', .* for 'column_3', ingest.columns={label"
    ):
        understand(listed)
    assert understand(listed, columns={"label": "column_3"}).classes == {"1": 2, "2": 2}
