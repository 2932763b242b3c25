"""What `init` looks at of the files: all of few, some of many."""

import pytest

from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.references import Annotations, ImageRef
from image_pipeline.init import survey
from image_pipeline.init.layout import find_annotated, guess_layout
from image_pipeline.init.mirror import Mirrored, look_at_mirrored
from image_pipeline.init.survey import estimate_duplicates, list_files, measure_some
from tests.drawings import draw_texts

pytestmark = pytest.mark.unit


def _write(folder, contents):
    for number, content in enumerate(contents):
        (folder / f"{number:04d}.jpg").write_bytes(content)
    source = Folder(str(folder))
    return source, list(source.list())


def test_the_share_is_exact_where_all_files_of_one_size_are_read(tmp_path):
    contents = [b"a1", b"a2", b"a1", b"a1", b"long", b"longer", b"other", b"rehto"]
    assert estimate_duplicates(*_write(tmp_path, contents)) == 2 / 8


def test_files_of_different_sizes_are_not_read(tmp_path):
    source, refs = _write(tmp_path, [b"x" * length for length in range(1, 9)])
    for each in tmp_path.iterdir():
        each.unlink()
    assert estimate_duplicates(source, refs) == 0


def test_of_many_files_some_groups_stand_for_the_others(tmp_path, monkeypatch):
    # In each of 100 groups of one size, one of four files is a copy.
    contents = [bytes([kind]) * length for length in range(1, 101) for kind in (1, 2, 3, 3)]
    source, refs = _write(tmp_path, contents)
    read = []
    real = survey.try_read
    monkeypatch.setattr(survey, "try_read", lambda ref, *more: read.append(ref) or real(ref, *more))
    monkeypatch.setattr(survey, "_MOST_FILES", 40)
    assert estimate_duplicates(source, refs) == 1 / 4
    assert len(read) == 40


def test_a_group_that_is_too_large_is_read_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "_MOST_FILES", 10)
    assert estimate_duplicates(*_write(tmp_path, [b"same"] * 30)) == 9 / 10


def test_no_files_have_no_copies(tmp_path):
    assert estimate_duplicates(*_write(tmp_path, [])) == 0


@pytest.fixture
def source(tmp_path):
    (tmp_path / "a").mkdir()
    for number in range(12):
        (tmp_path / "a" / f"{number:02d}.jpg").write_bytes(b"x" * (number + 1))
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "nowhere")
    return Folder(str(tmp_path))


def test_files_are_listed_as_ingest_lists_them(source):
    readable = [ref for ref in source.list() if ref.problem is None]
    assert list(list_files(source).values()) == readable
    assert measure_some(source, readable) is readable


def test_very_many_files_are_listed_alike_but_only_some_are_measured(source, monkeypatch):
    monkeypatch.setattr(survey, "_MANY", 10)
    monkeypatch.setattr(survey, "_SOME", 4)
    found = list_files(source)
    readable = {ref.path: ref for ref in source.list() if ref.problem is None}
    assert list(found) == list(readable) and not any(ref.size_bytes for ref in found.values())
    some = measure_some(source, list(found.values()))
    assert len(some) == 4 and all(readable[ref.path] == ref for ref in some)


def _look(folder):
    source = Folder(str(folder))
    return look_at_mirrored(
        source, list(source.list()), IngestOptions(label_pattern="(?P<label>[^/]+)/.+")
    )


def test_letters_are_not_mirrored(tmp_path):
    draw_texts(tmp_path, {"b": "b", "d": "d", "p": "p", "q": "q"})
    found = _look(tmp_path)
    assert found.images == 80 and found.guessed == 0.25
    assert found.accuracy > 0.9 and found.mirrored < 0.2 and found.changes_class


def test_what_is_its_own_mirror_image_is(tmp_path):
    draw_texts(tmp_path, {"o": "o", "i": "I", "minus": "-", "eight": "8"})
    found = _look(tmp_path)
    assert found.accuracy > 0.9 and found.mirrored > 0.8 and not found.changes_class


@pytest.mark.parametrize(
    ("accuracy", "mirrored", "changes"),
    [(0.5, 0.3, True), (0.5, 0.4, False), (0.2, 0.0, False), (0.9, 0.9, False)],
)
def test_only_what_is_known_can_be_mistaken(accuracy, mirrored, changes):
    assert Mirrored(500, accuracy, mirrored, guessed=0.2).changes_class is changes


def test_nothing_is_said_of_few(tmp_path):
    draw_texts(tmp_path / "few", {"b": "b", "d": "d"}, count=9)
    assert _look(tmp_path / "few") is None
    draw_texts(tmp_path / "one", {"b": "b"})
    (tmp_path / "one" / "c").mkdir()
    for number in range(12):
        (tmp_path / "one" / "c" / f"{number}.png").write_text("no image")
    assert _look(tmp_path / "one") is None


def _paths(*folders, count=4, ending=".jpg"):
    return [f"{folder}/{number}{ending}" for folder in folders for number in range(count)]


def test_class_folders():
    found = guess_layout([*_paths("cat", "dog", ending=".PNG"), "cat/more/x.jpg", "readme.txt"])
    assert (found.kind, found.images, found.others) == ("class folders", 9, 1)
    assert found.label_pattern == "(?P<label>[^/]+)/.+"
    assert found.classes == {"cat": 5, "dog": 4}
    assert (found.split_pattern, found.splits, found.masks) == (None, {}, None)


def test_labels_that_a_source_says_count_more_than_paths():
    refs = [
        ImageRef(f"x/{n}.png", 1, 0, annotations=Annotations(f"photos:{n}", "dog"))
        for n in range(3)
    ]
    refs.append(ImageRef("x/3.png", 1, 0, annotations=Annotations("photos:3", "")))
    found = find_annotated(refs)
    assert (found.images, found.classes, found.label_pattern) == (4, {"dog": 3}, None)
    assert find_annotated([ImageRef("x/3.png", 1, 0)]) is None
    assert find_annotated([ImageRef("x/3.png", 1, 0, annotations=Annotations("photos:3"))]) is None


def test_names_without_an_ending_are_images_if_there_are_no_others():
    found = guess_layout([*_paths("cat", "dog", ending=""), "notes.txt"])
    assert (found.images, found.others, found.classes) == (8, 1, {"cat": 4, "dog": 4})
    found = guess_layout([*_paths("cat", "dog"), "cat/LICENSE"])
    assert (found.images, found.others) == (8, 1)


@pytest.mark.parametrize(
    ("folders", "names", "splits"),
    [
        (("train", "val"), {"val": "eval"}, {"train": 8, "eval": 8}),
        (("Train", "test"), {"Train": "train", "test": "eval"}, {"train": 8, "eval": 8}),
        (("train", "eval", "test"), {}, {"train": 8, "eval": 8, "test": 8}),
        (
            ("training", "validation", "testing"),
            {"training": "train", "validation": "eval", "testing": "test"},
            {"train": 8, "eval": 8, "test": 8},
        ),
    ],
)
def test_split_folders_above_class_folders(folders, names, splits):
    found = guess_layout(_paths(*(f"{top}/{name}" for top in folders for name in ("cat", "dog"))))
    assert (found.kind, found.classes) == (
        "split folders",
        dict.fromkeys(("cat", "dog"), sum(splits.values()) // 2),
    )
    assert found.label_pattern == "[^/]+/(?P<label>[^/]+)/.+"
    assert found.split_pattern == f"(?P<split>{'|'.join(folders)})/"
    assert (found.split_names, found.splits) == (names, splits)


def test_class_folders_that_are_called_like_splits_are_classes():
    assert guess_layout(_paths("train", "tram")).classes == {"train": 4, "tram": 4}
    found = guess_layout(_paths("train", "test"))
    assert (found.kind, found.classes, found.splits) == ("no classes", {}, {"train": 4, "eval": 4})


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["n01440764_tench.JPEG", "n01443537_goldfish.JPEG"], {"n01440764": 1, "n01443537": 1}),
        (["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"], {"cat": 2, "dog": 2}),
        (["cat1.jpg", "cat2.jpg", "dog1.jpg", "dog_2.jpg"], {"cat": 2, "dog": 2}),
        (["cat_a.jpg", "cat_b.jpg", "dog_a.jpg", "dog_b.jpg"], {"cat": 2, "dog": 2}),
    ],
)
def test_a_class_in_the_file_name(names, classes):
    found = guess_layout(names)
    assert (found.kind, found.classes) == ("class in the file name", classes)


@pytest.mark.parametrize(
    "paths",
    [
        ["IMG_1.jpg", "IMG_2.jpg", "IMG_3.jpg"],
        ["a_1x.jpg", "b_1x.jpg", "c_1x.jpg"],
        ["1.jpg", "2.jpg"],
        _paths("only"),
        ["notes.txt"],
        [],
    ],
    ids=["one name", "no name twice", "numbers", "one folder", "no image", "nothing"],
)
def test_nothing_that_names_classes(paths):
    found = guess_layout(paths)
    assert (found.kind, found.label_pattern, found.classes) == ("no classes", None, {})


@pytest.mark.parametrize("mask", ["{}.png", "{}_mask.png", "{}_L.png"])
@pytest.mark.parametrize("folders", [("images", "masks"), ("train/img", "train/Annotations")])
def test_images_and_their_masks(mask, folders):
    images, masks = folders
    paths = [f"{images}/{n}.jpg" for n in range(10)]
    paths += [f"{masks}/{mask.format(n)}" for n in range(10)]
    found = guess_layout(paths)
    assert (found.kind, found.masks.image_dir) == ("image/mask pairs", images)


def test_a_class_called_mask_is_no_mask():
    paths = [f"face/f{n}.jpg" for n in range(9)] + [f"mask/m{n}.jpg" for n in range(9)]
    assert guess_layout(paths).kind == "class folders"
