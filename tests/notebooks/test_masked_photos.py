import numpy as np
import pytest
from PIL import Image

from tests.notebooks.modules import load

pytestmark = [pytest.mark.unit, pytest.mark.wide]

photos, masked_photos = load("photos"), load("masked_photos")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes") / "scenes"
    assert masked_photos.write_masked_photos(str(folder)) == 112
    return folder


def _names(folder, kind):
    return sorted(path.name for path in (folder / kind).iterdir())


def test_each_photo_has_sixteen_pairs_of_one_size(folder):
    keys = [f"{name}_{number:02d}" for name in sorted(photos.SUBJECTS) for number in range(16)]
    assert _names(folder, "images") == [f"{key}.jpg" for key in keys]
    assert _names(folder, "masks") == [f"{key}.png" for key in keys]
    for key in keys:
        with Image.open(folder / f"images/{key}.jpg") as image:
            assert image.size == (200, 150)
        with Image.open(folder / f"masks/{key}.png") as mask:
            assert (mask.size, mask.mode) == ((200, 150), "L")


def test_the_same_bytes_each_time(folder, tmp_path):
    masked_photos.draw_mask.cache_clear()
    masked_photos.write_masked_photos(str(tmp_path))
    for path in folder.rglob("*.*"):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("number", "names"),
    [
        (1, ["astronaut", "photographer"]),
        *[(2, ["cat"]), (3, ["coffee"]), (4, ["flower"]), (5, ["pagoda"]), (6, ["rocket"])],
    ],
)
def test_each_mask_shows_its_own_class(folder, number, names):
    for path in (path for name in names for path in (folder / "masks").glob(f"{name}_*.png")):
        with Image.open(path) as mask:
            assert set(np.unique(mask).tolist()) == {0, number, 255}


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("astronaut", (225, 100), (400, 300)),  # the face, the dark behind her
        ("cat", (175, 110), (430, 200)),  # an eye, the floor
        ("coffee", (280, 150), (550, 50)),  # the coffee, the table
        ("flower", (310, 220), (50, 50)),
        ("pagoda", (205, 220), (450, 100)),  # its windows, the sky
        ("photographer", (80, 300), (400, 400)),  # the coat, the lawn
        ("rocket", (322, 300), (200, 200)),
    ],
)
def test_a_mask_lies_where_the_subject_is(name, inside, outside):
    mask = masked_photos.draw_mask(name)
    assert mask.size == photos.load_photo(name).size
    kind = masked_photos.OUTLINES[name][0].name
    assert mask.getpixel(inside) == masked_photos.CLASSES.index(kind)
    assert mask.getpixel(outside) == 0


def test_the_edge_is_of_no_class():
    (outline,) = masked_photos.OUTLINES["rocket"]
    assert outline.corners[:2] == [(315, 140), (322, 127)]
    mask = masked_photos.draw_mask("rocket")
    assert [mask.getpixel((x, 300)) for x in (300, 308, 322, 334, 342)] == [0, 255, 6, 255, 0]


def test_a_mask_is_framed_as_its_picture_is():
    framing = masked_photos.FRAMINGS[-1]
    left, top, right, bottom = photos.frame((640, 427), photos.SUBJECTS["flower"], framing)
    whole = np.asarray(masked_photos.draw_mask("flower"))
    mask = np.asarray(masked_photos.take_mask("flower", framing))
    for y, x in ((10, 20), (75, 100), (140, 190)):
        across, down = (
            left + (x + 0.5) * (right - left) / 200,
            top + (y + 0.5) * (bottom - top) / 150,
        )
        assert mask[y, x] == whole[int(down), int(across)]
