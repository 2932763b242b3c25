import collections
import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.notebooks.modules import load

pytestmark = [pytest.mark.unit, pytest.mark.wide]

photos = load("photos")
WIDE = photos.Framing("landscape", 1.0, 0.0, 0.0, 1, "jpg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos") / "deep" / "images"
    assert photos.write_photos(str(folder)) == 73
    return folder


def _read(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*")}


def test_seven_classes_have_ten_pictures_each_and_three_files_are_odd(folder):
    odd = {"cat/copy of 00.jpg", "coffee/notes.jpg", "rocket/cut off.jpg"}
    names = {
        f"{name}/{number:02d}.{'png' if number in (2, 5) else 'jpg'}"
        for name in ["astronaut", "cat", "coffee", "flower", "pagoda", "photographer", "rocket"]
        for number in range(10)
    }
    assert _read(folder).keys() == names | odd


def test_the_same_bytes_each_time(folder, tmp_path):
    photos.load_photo.cache_clear()
    photos.write_photos(str(tmp_path))
    first, second = ({n: p.read_bytes() for n, p in _read(f).items()} for f in (folder, tmp_path))
    assert first == second
    photos.write_photos(str(tmp_path))
    assert {name: path.read_bytes() for name, path in _read(tmp_path).items()} == first


def test_no_two_pictures_are_the_same_but_the_copy(folder):
    contents = collections.defaultdict(list)
    for name, path in sorted(_read(folder).items()):
        contents[path.read_bytes()].append(name)
    assert [same for same in contents.values() if len(same) > 1] == [
        ["cat/00.jpg", "cat/copy of 00.jpg"]
    ]


def test_orientations_and_sizes_of_the_files(folder):
    found = []
    for number, framing in enumerate(photos.FRAMINGS):
        with Image.open(folder / "pagoda" / f"{number:02d}.{framing.suffix}") as image:
            found.append((image.getexif().get(0x0112, 1), image.size, image.format))
    assert found == [
        (1, (200, 150), "JPEG"),
        (6, (200, 150), "JPEG"),  # 150×200 when it is upright
        (1, (160, 160), "PNG"),
        (3, (200, 150), "JPEG"),
        (8, (200, 150), "JPEG"),  # 150×200 when it is upright
        (1, (200, 150), "PNG"),
        (1, (150, 200), "JPEG"),
        (6, (160, 160), "JPEG"),
        (1, (200, 150), "JPEG"),
        (1, (160, 160), "JPEG"),
    ]


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_viewer_that_reads_exif_shows_it_upright(orientation):
    framing = WIDE._replace(orientation=orientation, suffix="png")
    upright = photos.take_photo("cat", framing)
    with Image.open(io.BytesIO(photos.encode(upright, framing))) as stored:
        is_turned = not np.array_equal(stored, upright)
        assert np.array_equal(ImageOps.exif_transpose(stored), upright)
    assert is_turned == (orientation != 1)


def test_the_photographer_is_gray_and_all_others_are_coloured(folder):
    modes = {}
    for name in photos.SUBJECTS:
        with Image.open(folder / name / "00.jpg") as image:
            modes[name] = image.mode
    assert modes.pop("photographer") == "L"
    assert set(modes.values()) == {"RGB"}


def test_the_odd_files_are_a_text_and_half_an_image(folder):
    assert (folder / photos.NO_IMAGE).read_text() == "Two spoons of sugar, no milk.\n"
    whole = (folder / "rocket" / "00.jpg").read_bytes()
    assert (folder / photos.CUT_OFF).read_bytes() == whole[: len(whole) // 2]


def test_a_crop_is_centred_on_the_subject_and_moved_by_shares_of_itself():
    framing = WIDE._replace(zoom=0.5)
    assert photos.frame((400, 300), (0.5, 0.5), framing) == (100, 75, 300, 225)
    moved = framing._replace(right=0.25, down=-0.5)
    assert photos.frame((400, 300), (0.5, 0.5), moved) == (150, 0, 350, 150)


@pytest.mark.parametrize(("subject", "box"), [((0, 0), (0, 0)), ((1, 1), (200, 150))])
def test_a_crop_never_leaves_the_photo(subject, box):
    left, top, right, bottom = photos.frame((400, 300), subject, WIDE._replace(zoom=0.5))
    assert (left, top) == box
    assert (right - left, bottom - top) == (200, 150)


def test_the_largest_crop_of_each_shape():
    shapes = {
        shape: photos.frame((400, 200), (0.5, 0.5), WIDE._replace(shape=shape))
        for shape in ("landscape", "portrait", "square")
    }
    assert shapes == {
        "landscape": pytest.approx((200 - 400 / 3, 0, 200 + 400 / 3, 200)),
        "portrait": (125, 0, 275, 200),
        "square": (100, 0, 300, 200),
    }


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
