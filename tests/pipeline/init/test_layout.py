import pytest

from image_pipeline.components.sources.references import Annotations, ImageRef
from image_pipeline.init.layout import find_annotated, guess_layout

pytestmark = pytest.mark.unit


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
