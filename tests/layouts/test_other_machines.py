"""Tables whose paths are of another machine, or in different capitals than their files."""

import pytest

from image_pipeline.components.errors import UserError
from tests.layouts.drawn import boxes_of, draw_images, labels_of, splits_of, understand, write_table

pytestmark = pytest.mark.beam
NAMES = [f"{n}.png" for n in range(6)]


def _write(path, start, names=NAMES):
    rows = [[f"{start}{name}", "ab"[n % 2]] for n, name in enumerate(names)]
    return write_table(path, [["path", "label"], *rows])


@pytest.mark.parametrize(
    ("start", "folder", "prefix", "root"),
    [
        ("/home/someone/data/images/", "images", "/home/someone/data/", None),
        ("C:\\Users\\me\\data\\images\\", "images", "C:/Users/me/data/", None),
        ("\\\\server\\share\\data\\", ".", "//server/share/data/", None),
        ("gs://bucket/sets/images/", "images", "gs://bucket/sets/", None),
        ("/content/drive/My Drive/x/", "photos", "/content/drive/My Drive/x/", "photos"),
    ],
)
def test_what_paths_of_another_machine_begin_with_is_taken_off(
    tmp_path, start, folder, prefix, root
):
    draw_images(tmp_path / folder, NAMES)
    listing = understand(_write(tmp_path / "t.csv", start))
    assert (listing.options.path_prefix, listing.options.root_dir) == (prefix, root)
    below = "" if folder == "." or root else f"{folder}/"
    assert labels_of(listing) == {f"{below}{name}": "ab"[n % 2] for n, name in enumerate(NAMES)}
    assert (
        f"'path' has paths of another machine, of which those below {prefix} are looked"
        in (listing.options.understood[0])
    )


def test_classes_are_the_folders_behind_the_prefix(tmp_path):
    names = [f"{'cat' if n % 2 else 'dog'}/{n}.png" for n in range(6)]
    draw_images(tmp_path, names)
    rows = [
        ["image", "site"],
        *([f"/mnt/set/{name}", "xy"[n // 3]] for n, name in enumerate(names)),
    ]
    listing = understand(write_table(tmp_path / "t.csv", rows))
    assert labels_of(listing) == {name: name[:3] for name in names}


def test_several_files_that_may_be_meant_are_asked_about(tmp_path):
    for folder in (".", "images"):
        draw_images(tmp_path / folder, NAMES)
    table = _write(tmp_path / "t.csv", "/home/x/images/")
    with pytest.raises(UserError, match=r"may be meant: for .*path_prefix=/home/x/; "):
        understand(table)
    found = labels_of(understand(table, path_prefix="/home/x/images/"))
    assert list(found) == NAMES


def test_paths_that_are_nowhere_below_stay_outside(tmp_path):
    draw_images(tmp_path, NAMES)
    table = _write(tmp_path / "t.csv", "/home/x/", [f"no-{name}" for name in NAMES])
    listing = understand(table, max_bad_fraction=1)
    assert listing.options.path_prefix is None
    assert {ref.problem for ref in listing.refs()} == {"outside"}


def test_masks_lose_the_prefix_too(tmp_path):
    for folder in ("images", "masks"):
        draw_images(tmp_path / folder, NAMES)
    rows = [[f"D:\\set\\images\\{name}", f"D:\\set\\masks\\{name}"] for name in NAMES]
    listing = understand(write_table(tmp_path / "t.csv", [["path", "mask"], *rows]))
    refs = [(ref.path, ref.mask.path) for ref in listing.refs() if ref.problem is None]
    assert refs == [(f"images/{name}", f"masks/{name}") for name in NAMES]


def test_other_capital_letters_are_read_where_one_file_fits(tmp_path):
    draw_images(tmp_path / "Images", ["a.png", "b.PNG", "c.png", "C.png"])
    listing = understand(
        _write(tmp_path / "t.csv", "images/", ["A.PNG", "b.png", "C.PNG"]), max_bad_fraction=1
    )
    assert labels_of(listing) == {"Images/a.png": "a", "Images/b.PNG": "b"}
    assert [ref.problem for ref in listing.refs()] == [None, None, "missing_file"]
    assert (
        "2 paths differ from the names of their files by capital letters, such as 'images/A.PNG', "
        "which is read from 'Images/a.png'"
    ) in listing.noticed


_CORNERS = ["0.25,0.5,,,0.5,1,,", "0.25,0.5,0.5,0.5,0.5,1,0.25,1"]


@pytest.mark.parametrize("corners", _CORNERS)
@pytest.mark.parametrize("has_sets", [True, False])
def test_boxes_of_vertex_ai(tmp_path, corners, has_sets):
    draw_images(tmp_path, NAMES)
    sets = ["TRAIN", "VALIDATION", "TEST"]
    rows = [f"gs://b/x/{n}.png,{'ab'[n % 2]},{corners}" for n in range(5)]
    rows += [rows[0], "gs://b/x/5.png,,,,,,,,,"]
    lines = [f"{sets[n % 3]},{row}" if has_sets else row for n, row in enumerate(rows)]
    lines[5] = lines[5].replace("TEST", "TRAIN")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    listing = understand(tmp_path / "t.csv")
    box = (0.25, 0.5, 0.5, 1)
    found = boxes_of(listing)
    assert found["0.png"] == [("a", *box)] * 2 and found["1.png"] == [("b", *box)]
    assert found["5.png"] == [] and listing.options.boxes.format == "rel_xyxy"
    splits = ["train", "eval", "test", "train", "eval", "train"] if has_sets else [None] * 6
    assert list(splits_of(listing).values()) == splits


def test_classes_of_vertex_ai(tmp_path):
    draw_images(tmp_path, NAMES)
    sets = ["TRAIN", "VALIDATION", "TRAIN"]
    lines = [f"{sets[n % 3]},gs://b/x/{n}.png,{'ab'[n % 2]}" for n in range(6)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    listing = understand(tmp_path / "t.csv")
    assert labels_of(listing) == {f"{n}.png": "ab"[n % 2] for n in range(6)}
    assert list(splits_of(listing).values()) == ["train", "eval", "train"] * 2


@pytest.mark.parametrize("value", ["UNASSIGNED", "TRAIN", ""])
def test_one_set_of_vertex_ai_is_shared_out_anew(tmp_path, value):
    draw_images(tmp_path, NAMES)
    lines = [f"{value},gs://b/x/{n}.png,{'ab'[n % 2]}" for n in range(6)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    listing = understand(tmp_path / "t.csv")
    assert set(splits_of(listing).values()) <= {None, ""} and len(labels_of(listing)) == 6


def test_a_file_that_rows_name_in_several_capital_letters_is_the_first_s(tmp_path):
    draw_images(tmp_path, ["a.png", "b.png"])
    names = ["A.png", "a.png", "B.png", "B.PNG"]
    listing = understand(_write(tmp_path / "t.csv", "", names), max_bad_fraction=1)
    assert labels_of(listing) == {"a.png": "b", "b.png": "a"}
    assert [ref.message for ref in listing.refs() if ref.problem] == [
        "t.csv:2: names 'a.png' again, in different capitals",
        "t.csv:5: names 'b.png' again, in different capitals",
    ]
