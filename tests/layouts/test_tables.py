"""What the columns of a table mean, where their names alone do not say it."""

import json

import pytest

from image_pipeline.components.errors import UserError
from tests.layouts.drawn import (
    boxes_of,
    column_of,
    draw_images,
    labels_of,
    splits_of,
    understand,
    write_table,
)

pytestmark = pytest.mark.unit

_NAMES = [f"{n}.png" for n in range(8)]
# Left, top, right, bottom, of an image of 40 x 30; the last one has none.
_BOXES = [
    ("0.png", "cat", 2, 3, 20, 28), ("1.png", "dog", 5, 5, 39, 29),
    ("0.png", "dog", 21, 10, 38, 29), ("2.png", "cat", 0, 0, 40, 30),
    ("3.png", "cat", 25, 20, 33, 30), ("3.png", "dog", 1, 1, 9, 29),
]  # fmt: skip
_FOUND = {
    "0.png": [("cat", 2, 3, 20, 28), ("dog", 21, 10, 38, 29)],
    "1.png": [("dog", 5, 5, 39, 29)],
    "2.png": [("cat", 0, 0, 40, 30)],
    "3.png": [("cat", 25, 20, 33, 30), ("dog", 1, 1, 9, 29)],
}


def _write_boxes(folder, header, order, **written):
    draw_images(folder / "images", _NAMES[:5])
    rows = [order(*box) for box in _BOXES]
    return write_table(folder / "boxes.csv", [header, *rows] if header else rows, **written)


@pytest.mark.parametrize(
    ("header", "order", "format_"),
    [
        (
            ["filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"],
            lambda path, name, *box: (path, 40, 30, name, *box),
            "xyxy",
        ),
        (
            ["ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax"],
            lambda path, name, a, b, c, d: (path[:1], name, a, c, b, d),
            "xyxy",
        ),
        (
            ["label_name", "bbox_x", "bbox_y", "bbox_width", "bbox_height", "image_name"],
            lambda path, name, a, b, c, d: (name, a, b, c - a, d - b, path),
            "xywh",
        ),
        (None, lambda path, name, *box: (path, *box, name), "xyxy"),
    ],
    ids=["tensorflow", "open images", "corner and sides", "no header"],
)
def test_a_box_a_row_is_joined_to_a_row_an_image(tmp_path, header, order, format_):
    listing = understand(_write_boxes(tmp_path, header, order))
    assert listing.options.boxes.format == format_
    assert listing.options.boxes.classes == ("cat", "dog")
    found = boxes_of(listing)
    assert listing.found == listing.usable == 4
    if format_ == "xywh":
        found = {
            p: [(n, a, b, a + c, b + d) for n, a, b, c, d in each] for p, each in found.items()
        }
    assert found == _FOUND
    assert list(found) == ["0.png", "1.png", "2.png", "3.png"]  # as they are first named
    assert any("each row is a box" in said for said in listing.options.understood)
    assert listing.noticed == (
        "1 image lies beside those that boxes.csv names, such as 4.png: not ingested",
    )
    again = understand(tmp_path / "boxes.csv", **listing.options.model_dump())
    assert (again.options, again.fingerprint) == (listing.options, listing.fingerprint)


def test_an_image_whose_box_is_empty_has_none(tmp_path):
    draw_images(tmp_path, _NAMES[:2])
    rows = [["0.png", 2, 3, 39, 28, "cat"], ["1.png", "", "", "", "", ""]]
    assert boxes_of(understand(write_table(tmp_path / "t.csv", rows))) == {
        "0.png": [("cat", 2, 3, 39, 28)],
        "1.png": [],
    }


def test_a_box_that_is_none_costs_its_image(tmp_path):
    draw_images(tmp_path, _NAMES[:3])
    header = ["path", "class", "x1", "y1", "x2", "y2"]
    rows = [[name, "cat", 1, 2, 30, 20] for name in _NAMES[:3]]
    rows.append(["1.png", "cat", "left", 2, 30, 20])
    listing = understand(write_table(tmp_path / "t.csv", [header, *rows]))
    assert [ref.problem for ref in listing.refs()] == [None, "wrong_type", None]


def test_what_corners_are_is_proved_or_asked(tmp_path):
    draw_images(tmp_path, _NAMES[:2])
    header = ["path", "class", "bbox"]
    small = [["0.png", "a", "[1, 2, 10, 12]"], ["1.png", "a", "[2, 3, 9, 12]"]]
    table = write_table(tmp_path / "t.csv", [header, *small])
    with pytest.raises(UserError) as caught:
        understand(table)
    assert str(caught.value) == (
        f"The numbers of boxes in {table!r}, bbox, fit several readings: of 2 boxes, 2 are in "
        "images of known size. Say what they are: for left, top, right and bottom, set "
        "ingest.boxes.format=xyxy; for left, top, width and height, set ingest.boxes.format=xywh."
    )
    told = understand(table, boxes={"format": "xyxy"})
    assert boxes_of(told)["0.png"] == [("a", 1, 2, 10, 12)] and told.options.boxes.format == "xyxy"
    wide = [*small, ["0.png", "a", "[20, 2, 39, 29]"]]
    assert (
        understand(write_table(tmp_path / "t.csv", [header, *wide])).options.boxes.format == "xyxy"
    )
    sides = [["0.png", "a", "[20, 2, 9, 20]"], ["1.png", "a", "[2, 3, 9, 12]"]]
    table = write_table(tmp_path / "t.csv", [header, *sides])
    assert understand(table).options.boxes.format == "xywh"


@pytest.mark.parametrize(
    ("scale", "format_"), [((1, 1), "xyxy"), ((40, 30), None)], ids=["pixels", "shares"]
)
def test_boxes_in_cells_are_not_read_in_another_order_than_theirs(tmp_path, scale, format_):
    draw_images(tmp_path, _NAMES[:4])
    cells: dict[str, list[object]] = {}
    for path, name, *box in _BOXES:
        sides = [x / s for x, s in zip(box, scale * 2, strict=True)]
        cells.setdefault(path, []).append([*sides, name])
    lines = [json.dumps({"path": path, "boxes": own}) for path, own in cells.items()]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    if format_ is None:
        with pytest.raises(UserError, match=r"set ingest.boxes.format=rel_xyxy; .*=rel_xywh\."):
            understand(tmp_path / "t.jsonl")
        format_ = "rel_xyxy"
        listing = understand(tmp_path / "t.jsonl", boxes={"format": format_})
    else:
        listing = understand(tmp_path / "t.jsonl")
        assert listing.options.understood == (
            "t.jsonl: boxes are left, top, right and bottom in pixels, by 6 boxes, since as widths "
            "and heights most would stick out (ingest.boxes.format)",
        )
    assert listing.options.boxes.format == format_
    again = understand(tmp_path / "t.jsonl", **listing.options.model_dump())
    assert again.options == listing.options


def test_names_that_the_numbers_belie_are_refused(tmp_path):
    draw_images(tmp_path, _NAMES[:2])
    header = ["path", "class", "xmin", "ymin", "xmax", "ymax"]
    rows = [["0.png", "a", 20, 12, 15, 14], ["1.png", "a", 22, 3, 9, 12]]
    with pytest.raises(UserError, match=r"left, top, right and bottom, as they are called\), fit"):
        understand(write_table(tmp_path / "t.csv", [header, *rows]))


@pytest.mark.parametrize("fraction", [True, False], ids=["shares", "pixels"])
def test_shares_are_told_from_pixels(tmp_path, fraction):
    header = ["path", "class", "xmin", "ymin", "xmax", "ymax"]
    scale = (40, 30, 40, 30) if fraction else (1, 1, 1, 1)
    boxes = [(p, n, *(x / s for x, s in zip(box, scale, strict=True))) for p, n, *box in _BOXES]
    draw_images(tmp_path, _NAMES[:4])
    listing = understand(write_table(tmp_path / "t.csv", [header, *boxes]))
    assert listing.options.boxes.format == ("rel_xyxy" if fraction else "xyxy")


@pytest.mark.parametrize("sides", [("w", "h"), ("width", "height")])
def test_a_corner_and_sides_are_told_and_so_is_the_only_column_of_words(tmp_path, sides):
    draw_images(tmp_path, _NAMES[:2])
    header = ["path", "x1", "y1", *sides, "cell_type", "set"]
    rows = [[f"{n % 2}.png", 2, 3, 30 + n, 20, ("red", "white")[n % 2], "train"] for n in range(4)]
    found = understand(write_table(tmp_path / "t.csv", [header, *rows]))
    assert found.options.boxes.format == "xywh"
    assert boxes_of(found)["1.png"] == [("white", 2, 3, 31, 20), ("white", 2, 3, 33, 20)]
    again = [[*row, "ab"[n % 2]] for n, row in enumerate(rows)]
    table = write_table(tmp_path / "t.csv", [[*header, "stain"], *again])
    with pytest.raises(UserError, match=r"for 'stain', ingest.columns=\{label: 'stain'\}; for box"):
        understand(table)
    found = understand(table, columns={"label": None})
    assert found.options.boxes.classes == ("object",)


def test_a_column_that_is_the_only_one_that_can_be_is_the_label(tmp_path):
    draw_images(tmp_path / "images", _NAMES)
    rows = [[600 + n % 2, f"{n}.png", ("joy", "fear")[n % 2], f"note {n}"] for n in range(8)]
    header = ["user.id", "image", "emotion", "notes"]
    listing = understand(write_table(tmp_path / "data" / "t.csv", [header, *rows]))
    assert labels_of(listing) == {f"{n}.png": ("joy", "fear")[n % 2] for n in range(8)}
    assert listing.options.understood == (
        "t.csv: 'image' names images in ../images/",
        "t.csv: the label is the column 'emotion', ingest.columns={label: …}",
    )
    assert column_of(listing, "user_id")["1.png"] == 601


def test_several_columns_that_may_be_the_label_are_asked_about(tmp_path):
    draw_images(tmp_path, _NAMES)
    rows = [[f"{n}.png", "ab"[n % 2], "xyz"[n % 3], n % 2, (n + 1) % 2] for n in range(8)]
    header = ["image", "dx", "localization", "left", "right"]
    table = write_table(tmp_path / "t.csv", [header, *rows])
    with pytest.raises(UserError) as caught:
        understand(table)
    assert str(caught.value) == (
        f"No column of {table!r} has a usual name for labels, and several may be: for 'dx', "
        "ingest.columns={label: 'dx'}; for 'localization', ingest.columns={label: 'localization'}; "
        "for left, right as a class each, ingest.label_columns=[left, right]; for images without "
        "labels, ingest.label_pattern=null."
    )
    assert labels_of(understand(table, columns={"label": "dx"}))["1.png"] == "b"
    assert labels_of(understand(table, label_columns=["left", "right"]))["1.png"] == "left"
    assert labels_of(understand(table, label_pattern=None))["1.png"] == ""


def test_folders_in_paths_stay_the_classes_and_that_is_said(tmp_path):
    names = [f"{'cat' if n % 2 else 'dog'}/{n}.png" for n in range(8)]
    draw_images(tmp_path, names)
    rows = [[name, "ab"[n // 4]] for n, name in enumerate(names)]
    listing = understand(write_table(tmp_path / "t.csv", [["path", "site"], *rows]))
    assert listing.classes == {"cat": 4, "dog": 4}
    (said,) = listing.options.understood
    assert said.startswith(
        "t.csv: no column has a usual name for labels, so classes are the first fold"
    )
    assert "such as 'site'" in said


def test_names_without_endings_are_found_where_they_fit(tmp_path):
    draw_images(tmp_path / "train_images", _NAMES)
    draw_images(tmp_path / "other", ["x.png"])
    rows = [["id_code", "diagnosis"], *([str(n), n % 3] for n in range(8))]
    listing = understand(write_table(tmp_path / "train.csv", rows))
    assert labels_of(listing) == {f"{n}.png": str(n % 3) for n in range(8)}
    assert (listing.options.path_ending, listing.options.root_dir) == (".png", "train_images")


@pytest.mark.parametrize("one", ["1.0", "1", "True"])
def test_a_column_a_class_is_a_class_or_tags(tmp_path, one):
    draw_images(tmp_path, _NAMES)
    zero = {"1.0": "0.0", "1": "0", "True": "False"}[one]
    header = ["image", "nevus", "melanoma", "other"]
    rows = [[f"{n}.png", *(one if n % 3 == k else zero for k in range(3))] for n in range(8)]
    listing = understand(write_table(tmp_path / "t.csv", [header, *rows]))
    assert labels_of(listing) == {f"{n}.png": header[1 + n % 3] for n in range(8)}
    rows[0][1:] = [one, zero, one]
    rows[1][1:] = [zero, zero, zero]
    listing = understand(write_table(tmp_path / "t.csv", [header, *rows]))
    assert column_of(listing, "label") == {
        f"{n}.png": [["nevus", "other"], [], ["other"], ["nevus"]][n]
        if n < 4
        else [header[1 + n % 3]]
        for n in range(8)
    }
    assert listing.options.column_types == {"label": "strings"}


@pytest.mark.parametrize("name", ["Set", "split", "partition"])
def test_a_column_of_splits_keeps_the_persons_split(tmp_path, name):
    draw_images(tmp_path, _NAMES)
    sets = ["TRAIN"] * 4 + ["VALIDATE"] * 2 + ["TEST"] * 2
    rows = [[sets[n], f"{n}.png", "ab"[n % 2]] for n in range(8)]
    listing = understand(write_table(tmp_path / "t.csv", [[name, "Image", "Label"], *rows]))
    own = {"TRAIN": "train", "VALIDATE": "eval", "TEST": "test"}
    assert splits_of(listing) == {f"{n}.png": own[sets[n]] for n in range(8)}
    assert listing.options.splits == {"train": 0.8, "eval": 0.1, "test": 0.1}


def test_a_column_that_is_only_called_like_splits_is_kept(tmp_path):
    draw_images(tmp_path, _NAMES)
    rows = [[n % 3, f"{n}.png", "ab"[n % 2]] for n in range(8)]
    listing = understand(write_table(tmp_path / "t.csv", [["set", "image", "label"], *rows]))
    assert set(splits_of(listing).values()) == {None}
    assert column_of(listing, "set")["2.png"] == 2


def test_spreadsheets_of_windows(tmp_path):
    draw_images(tmp_path / "images", [*_NAMES[:2], "Äpfel.png"])
    rows = [["filename", "label"], ["images\\0.png", "Äpfel"], ["images\\1.png", "Café"]]
    rows.append(["images/Äpfel.png", "Café"])
    expected = {"images/0.png": "Äpfel", "images/1.png": "Café", "images/Äpfel.png": "Café"}
    for encoding in ("cp1252", "utf-8", "utf-8-sig", "utf-16"):
        table = write_table(tmp_path / "t.csv", rows, encoding, ";")
        assert labels_of(understand(table)) == expected, encoding
    (tmp_path / "t.csv").write_text("sep=;\nfilename;label\nimages/0.png;a,b\nnone.png;c\n")
    listing = understand(tmp_path / "t.csv")
    assert labels_of(listing) == {"images/0.png": "a,b"}
    assert listing.first_problem == "t.csv:4: there is no file 'none.png'"


def test_names_are_found_however_their_accents_are_written(tmp_path):
    draw_images(tmp_path, ["the\u0301.png"])
    table = write_table(tmp_path / "t.csv", [["path", "label"], ["th\u00e9.png", "tea"]])
    assert labels_of(understand(table)) == {"the\u0301.png": "tea"}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("Usage", ["Training", "PublicTest", "PrivateTest"], ["train", "eval", "test"]),
        ("data set", ["train", "valid", "test"], ["train", "eval", "test"]),
        ("fold", ["train", "dev", "test"], ["train", "eval", "test"]),
    ],
)
def test_splits_are_known_by_many_names(tmp_path, name, values, expected):
    draw_images(tmp_path, _NAMES)
    rows = [[f"{n}.png", "ab"[n % 2], values[n % 3]] for n in range(8)]
    listing = understand(write_table(tmp_path / "t.csv", [["path", "label", name], *rows]))
    assert splits_of(listing) == {f"{n}.png": expected[n % 3] for n in range(8)}


def test_a_column_that_may_be_splits_is_told_with_what_would_take_it(tmp_path):
    draw_images(tmp_path, _NAMES)
    rows = [[f"{n}.png", "ab"[n % 2], int(n > 2)] for n in range(8)]
    table = write_table(tmp_path / "t.csv", [["path", "label", "is_train"], *rows])
    listing = understand(table)
    assert listing.noticed[0].startswith(
        "t.csv: 'is_train' (0, 1) does not say which rows are for training; if it does, "
        "ingest.columns={split: 'is_train'}"
    )
    assert column_of(listing, "is_train")["0.png"] == 0
    names = {"1": "train", "0": "eval"}
    listing = understand(table, columns={"split": "is_train"}, split_names=names)
    assert splits_of(listing) == {f"{n}.png": "train" if n > 2 else "eval" for n in range(8)}


@pytest.mark.parametrize("name", ["filepaths", "fname", "anything"])
def test_paths_are_known_by_other_names_or_by_their_endings(tmp_path, name):
    draw_images(tmp_path / "images", _NAMES)
    rows = [[n, f"images/{n}.png", "ab"[n % 2]] for n in range(8)]
    listing = understand(write_table(tmp_path / "t.csv", [["", name, "labels"], *rows]))
    assert labels_of(listing) == {f"images/{n}.png": "ab"[n % 2] for n in range(8)}


def test_one_column_of_0_and_1_is_two_classes(tmp_path):
    draw_images(tmp_path / "train", _NAMES)
    rows = [[str(n), n % 2] for n in range(8)]
    listing = understand(write_table(tmp_path / "t.csv", [["id", "has_cactus"], *rows]))
    assert labels_of(listing) == {f"{n}.png": str(n % 2) for n in range(8)}


def test_a_table_of_no_column_that_is_a_label_is_asked_about(tmp_path):
    draw_images(tmp_path, _NAMES)
    rows = [[f"{n}.png", n / 7] for n in range(8)]
    table = write_table(tmp_path / "t.csv", [["image", "score"], *rows])
    with pytest.raises(UserError, match=r"none has few values that repeat: 'score'\. Name it"):
        understand(table)
    assert column_of(understand(table, columns={"label": "score"}), "label")["0.png"] == 0
    assert column_of(understand(table, label_pattern=None), "score")["0.png"] == 0


def test_classes_of_boxes_get_the_names_that_are_beside_their_table(tmp_path):
    draw_images(tmp_path / "train", _NAMES[:2])
    header = ["ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax"]
    rows = [[n, f"/m/0{k}", 0.1, 0.5, 0.2, 0.6] for n in range(2) for k in range(2)]
    table = write_table(tmp_path / "boxes.csv", [header, *rows])
    write_table(tmp_path / "class-descriptions.csv", [["/m/00", "Cat"], ["/m/01", "Dog, small"]])
    listing = understand(table)
    assert listing.options.boxes.classes == ("Cat", "Dog, small")
    assert [name for name, *_ in boxes_of(listing)["1.png"]] == ["Cat", "Dog, small"]


def test_text_without_a_mark_is_read_where_its_encoding_is_certain(tmp_path):
    draw_images(tmp_path, _NAMES[:2])
    rows = [["path", "label"], ["0.png", "Äpfel"], ["1.png", "Café"]]
    for encoding in ("utf-16-le", "utf-16-be", "cp1252"):
        table = write_table(tmp_path / "t.csv", rows, encoding)
        assert set(labels_of(understand(table)).values()) == {"Äpfel", "Café"}, encoding
    assert "(cp1252), as in 'Äpfel'" in understand(table).options.understood[0]


@pytest.mark.parametrize(
    ("encoding", "label"),
    [("shift_jis", "猫の"), ("cp1250", "žaba"), ("mac_roman", "Äpfel"), ("cp1251", "кошка")],
)
def test_text_of_other_encodings_is_refused(tmp_path, encoding, label):
    draw_images(tmp_path, _NAMES[:2])
    rows = [["path", "label"], ["0.png", label], ["1.png", label]]
    with pytest.raises(UserError, match="is neither UTF-8 nor as Windows writes text in western"):
        understand(write_table(tmp_path / "t.csv", rows, encoding))


def test_boxes_and_columns_of_windows_have_their_letters(tmp_path):
    draw_images(tmp_path, _NAMES[:2])
    header = ["path", "class", "xmin", "ymin", "xmax", "ymax", "note"]
    rows = [["0.png", "Café", 2, 3, 39, 28, "façade"]]
    listing = understand(write_table(tmp_path / "t.csv", [header, *rows], "cp1252"))
    assert listing.options.boxes.classes == ("Café",)
    assert column_of(listing, "note") == {"0.png": "façade"}


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_lists_of_0_and_1_are_no_labels(tmp_path, name):
    draw_images(tmp_path, _NAMES[:2])
    rows = [["0.png", [0, 1]], ["1.png", [1, 0]]]
    if name == "t.csv":
        write_table(tmp_path / name, [["path", "label"], *rows])
    else:
        lines = (json.dumps({"path": path, "label": label}) for path, label in rows)
        (tmp_path / name).write_text("\n".join(lines))
    with pytest.raises(UserError, match="The label has lists of 0 and 1, which name no class"):
        understand(tmp_path / name)


def test_text_files_have_rows_with_commas_and_masks_beside_images(tmp_path):
    draw_images(tmp_path, [*_NAMES, "masks/0.png", "my copy.png"])
    rows = [(name, label, *numbers) for name, label, *numbers in _BOXES]
    assert boxes_of(understand(write_table(tmp_path / "boxes.txt", rows))) == _FOUND
    (tmp_path / "pairs.txt").write_text("/other/set/0.png /other/set/masks/0.png\n")
    listing = understand(tmp_path / "pairs.txt")
    ((image, mask),) = ((ref.path, ref.mask.path) for ref in listing.refs())
    assert (image, mask) == ("0.png", "masks/0.png")
    (tmp_path / "labels.txt").write_text("my copy.png\n0.png\n")
    assert [ref.path for ref in understand(tmp_path / "labels.txt").refs()] == [
        "my copy.png",
        "0.png",
    ]


@pytest.mark.parametrize("ending", ["", ".png"])
@pytest.mark.parametrize("below", ["", "lists/"])
def test_names_of_images_in_several_folders_are_found_in_each(tmp_path, ending, below):
    tmp_path /= "set"  # Folders beside that of the table are looked through, too.
    names = [f"a{n:03}" for n in range(80)]  # of which the first 50 are in one folder
    paths = [f"img/part_{n // 60}/{name}.png" for n, name in enumerate(names)]
    draw_images(tmp_path, paths)
    rows = [["image_id", "label"], *([f"{name}{ending}", n % 2] for n, name in enumerate(names))]
    listing = understand(write_table(tmp_path / f"{below}t.csv", rows))
    assert listing.options.path_folders == ("img/part_0", "img/part_1")
    labels = {path: str(n % 2) for n, path in enumerate(paths)}
    assert labels_of(listing) == labels
    unlabelled = understand(write_table(tmp_path / f"{below}t.csv", [row[:1] for row in rows]))
    assert labels_of(unlabelled) == dict.fromkeys(paths)


def test_names_that_are_in_several_folders_twice_are_refused_with_these(tmp_path):
    draw_images(tmp_path, [f"part_{n % 2}/a{n}.png" for n in range(6)] + ["part_0/a1.png"])
    rows = [["image_id", "label"], *([f"a{n}", n % 2] for n in range(6))]
    table = write_table(tmp_path / "t.csv", rows)
    with pytest.raises(UserError, match=r"such as part_0/a1.png and part_1/a1.png; say which are"):
        understand(table)
    listing = understand(table, path_folders=["part_0", "part_1"])
    problems = [ref.message for ref in listing.refs() if ref.problem]
    assert problems == ["t.csv:3: 'a1.png' is in several folders: part_0/a1.png, part_1/a1.png"]
    (tmp_path / "part_0/a1.png").unlink()
    assert len(labels_of(understand(table, path_folders=["part_0", "part_1"]))) == 6


def test_a_list_in_a_folder_called_like_that_of_its_images_finds_them(tmp_path):
    draw_images(tmp_path / "wikiart", [f"{name}/{n}.png" for name in "ab" for n in range(2)])
    rows = [[f"{name}/{n}.png", "ab".index(name)] for name in "ab" for n in range(2)]
    listing = understand(write_table(tmp_path / "wikiart_csv/style_train.csv", rows))
    assert listing.classes == {"0": 2, "1": 2} and listing.options.root_dir == "../wikiart"


def test_lists_of_splits_look_in_the_folders_of_these(tmp_path):
    for split, folder, number in (("train_1", "train_images", 4), ("valid", "val_images", 2)):
        names = [f"id{n}" for n in range(number)]  # the same in both
        draw_images(tmp_path / folder / folder, [f"{name}.png" for name in names])
        rows = [["id_code", "diagnosis"], *([name, n % 2] for n, name in enumerate(names))]
        write_table(tmp_path / f"{split}.csv", rows)
    given = tmp_path / "{train_1,valid}.csv"
    with pytest.raises(UserError, match=rf"ingest '{given}'"):
        understand(tmp_path)
    assert splits_of(understand(given)) == {
        f"{folder}/{folder}/id{n}.png": split
        for folder, split, number in (("train_images", "train", 4), ("val_images", "eval", 2))
        for n in range(number)
    }


def test_folders_of_splits_in_paths_are_splits_and_no_classes(tmp_path):
    paths = [f"{split}/{n}.png" for split in ("train", "val") for n in range(4)]
    draw_images(tmp_path, paths)
    rows = [["file", "gender"], *([path, "mf"[n % 2]] for n, path in enumerate(paths))]
    listing = understand(write_table(tmp_path / "t.csv", rows))
    assert listing.classes == {"f": 4, "m": 4}
    assert splits_of(listing) == {
        path: {"train": "train", "val": "eval"}[path.partition("/")[0]] for path in paths
    }
    assert "t.csv: train/, val/ (eval) in paths are taken as splits" in listing.options.understood


def test_columns_that_name_or_number_splits_are_no_labels(tmp_path):
    draw_images(tmp_path, [f"{n}.png" for n in range(8)])
    rows = [["image", "partition"], *([f"{n}.png", n % 3] for n in range(8))]
    listing = understand(write_table(tmp_path / "t.csv", rows))
    assert (
        listing.classes == {} and "does not say which rows are for training" in listing.noticed[0]
    )
    for row in rows[1:]:
        row[1] = ("train", "val", "test")[row[1]]
    rows[0][1] = "evaluation_status"
    listing = understand(write_table(tmp_path / "t.csv", rows))
    assert list(splits_of(listing).values()) == ["train", "eval", "test"] * 2 + ["train", "eval"]


def test_of_several_columns_the_one_called_a_label_is_it(tmp_path):
    draw_images(tmp_path, [f"{n}.png" for n in range(8)])
    rows = [["Image Index", "Finding Labels", "Follow-up #"]]
    rows += [[f"{n}.png", ("none", "mass")[n % 2], n % 3] for n in range(8)]
    assert understand(write_table(tmp_path / "t.csv", rows)).classes == {"mass": 4, "none": 4}


def test_a_column_of_files_names_is_the_images_whatever_it_is_called(tmp_path):
    draw_images(tmp_path / "scans", [f"p{n:04}.png" for n in range(8)])
    rows = [["visit", "patient", "target"], *([n, f"p{n:04}", n % 2] for n in range(8))]
    found = understand(write_table(tmp_path / "labels.csv", rows))
    assert labels_of(found) == {f"p{n:04}.png": str(n % 2) for n in range(8)}


def test_numbers_that_come_again_name_no_images(tmp_path):
    draw_images(tmp_path, [f"{n:04}.png" for n in range(3)])
    rows = [["grade", "target"], *([f"{n % 3:04}", n % 2] for n in range(8))]
    with pytest.raises(UserError, match=r"No column of .* Columns: grade, target\.$"):
        understand(write_table(tmp_path / "labels.csv", rows))


def test_of_hundreds_of_columns_the_first_are_shown(tmp_path):
    names, cells = [f"f{n}" for n in range(64)], [n / 2 for n in range(64)]
    rows = [["label", *names], [1, *cells], [0, *cells]]
    with pytest.raises(UserError, match=r"f17, f18 and 45 more\."):
        understand(write_table(tmp_path / "train.csv", rows))


# Lists of several columns with white space between, as CelebA and DeepFashion have them.
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
        "the columns are 5, image_id, x, y, w, h, but it has 2"
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
