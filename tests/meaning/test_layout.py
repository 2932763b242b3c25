"""What folders mean: splits, classes, what is neither; or which questions are open."""

import random

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.counted_folders import Tally
from image_pipeline.components.meaning.layout import understand
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.meanings import UnclearLayout
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import label_of, split_of
from image_pipeline.components.sources.file_names import split_named
from image_pipeline.components.sources.references import ImageRef
from tests.layouts.drawn import draw_images

pytestmark = pytest.mark.unit
_MASKS = {"masks": {"images": "{key}.jpg", "masks": "{key}.png"}}


def _understand(paths, **options):
    return understand("set", IngestOptions(**options), Tally(paths), lambda: paths)


def _count(paths, **options):
    """Images of each split and class, as ingest will read them; those left out are not counted."""
    found, said = _understand(paths, **options)
    counts = {}
    for path in paths:
        if not found.is_left_out(path):
            ref = ImageRef(path, 1, 1)
            key = split_of(ref, found), label_of(ref, found)
            counts[key] = counts.get(key, 0) + 1
    return counts, list(said)


def _paths(counts, ending=".jpg"):
    return [f"{folder}/{n:03}{ending}" for folder, count in counts.items() for n in range(count)]


def test_class_folders_mean_what_they_always_did():
    options, said = _understand(_paths({"cat": 3, "dog": 2}))
    assert (options, said) == (IngestOptions(), ())


def test_images_that_are_not_read_are_laid_out_as_others_are():
    splits = {"train/cat": 2, "train/dog": 2, "val/cat": 2}
    counts, _ = _count([*_paths(splits, ".ppm"), "train/cat/GT.csv"])
    assert counts[("train", "cat")] == 3  # One is the table, which is not an image.
    assert counts[("eval", "cat")] == 2


@pytest.mark.parametrize("order", [0, 1])
def test_split_folders_with_class_folders(order):
    paths = _paths({"train/cat": 5, "train/dog": 4, "validation/cat": 2, "test/dog": 1})
    random.Random(order).shuffle(paths)
    counts, said = _count(paths)
    assert counts == {
        ("train", "cat"): 5, ("train", "dog"): 4, ("eval", "cat"): 2, ("test", "dog"): 1
    }  # fmt: skip
    assert said == [
        "train/, validation/ (eval), test/ are taken as splits, the folders in them as classes: "
        "cat, dog"
    ]
    assert _understand(paths)[0].splits == {"train": 0.8, "eval": 0.1, "test": 0.1}


def test_without_another_one_the_test_split_is_evaluated_on():
    options, (said,) = _understand(_paths({"Train/a": 2, "Train/b": 2, "TEST/a": 1, "TEST/b": 1}))
    assert options.split_names == {"Train": "train", "TEST": "eval"}
    assert options.splits == {"train": 0.9, "eval": 0.1}
    taken = "Train/ (train), TEST/ (eval, since there is no other to evaluate on) are"
    assert said.startswith(taken)


def test_splits_that_are_given_hold():
    paths = _paths({"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1})
    three = {"train": 0.8, "eval": 0.1, "test": 0.1}
    counts, _ = _count(paths, splits=three)
    assert counts[("test", "a")] == 1
    counts, _ = _count(paths, splits={"train": 0.9, "held": 0.1}, split_names={"test": "held"})
    assert counts[("held", "b")] == 1
    with pytest.raises(UserError, match=r"are the split 'eval', but ingest.splits has train, held"):
        _understand(paths, splits={"train": 0.9, "held": 0.1})
    options, _ = _understand(paths, split_pattern="(?P<split>train)/", splits=three)
    assert (options.split_pattern, options.splits) == ("(?P<split>train)/", three)


def test_folders_within_the_splits_and_what_has_no_class_there():
    paths = _paths({f"seg_{s}/seg_{s}/{c}": 3 for s in ("train", "test") for c in ("ice", "sea")})
    paths += _paths({"seg_pred/seg_pred": 4})
    counts, said = _count(paths)
    assert counts == {(s, c): 3 for s in ("train", "eval") for c in ("ice", "sea")}
    assert said[1] == "seg_pred/: 4 images of no class are left out (ingest.leave_out)"


def test_an_unlabelled_test_split_is_left_out_and_the_rest_is_shared_out():
    paths = _paths({"train/n01": 4, "train/n02": 4, "val/images": 3, "test/images": 3})
    counts, said = _count(paths)
    assert counts == {(None, "n01"): 4, (None, "n02"): 4}
    assert said[1] == "test/, val/: 6 images of no class are left out (ingest.leave_out)"


def test_splits_in_class_folders():
    paths = _paths({f"{c}/{s}": n for c in ("cat", "dog") for s, n in (("train", 4), ("val", 2))})
    counts, said = _count(paths)
    assert counts == {(s, c): n for s, n in (("train", 4), ("eval", 2)) for c in ("cat", "dog")}
    assert said == [
        "train/, val/ (eval) are taken as splits, the folders above them as classes: cat, dog"
    ]


def test_folders_that_hold_everything_are_no_class():
    counts, said = _count(_paths({"archive/PetImages/Cat": 3, "archive/PetImages/Dog": 2}))
    assert counts == {(None, "Cat"): 3, (None, "Dog"): 2}
    assert said == [
        "archive/PetImages/ holds all images; the folders in it are taken as classes: Cat, Dog"
    ]


def test_one_class_alone_is_one_as_it_was_and_is_said():
    options, (said,) = _understand(_paths({"cat": 3}))
    assert options == IngestOptions()
    assert said.startswith("cat/ holds all images, and is taken as their only class;")
    options, said = _understand(_paths({"images": 3}))
    assert label_of(ImageRef("images/000.jpg", 1, 1), options) is None and said == ()


def test_folders_of_sets_are_asked_about():
    paths = _paths({"data/cat": 3, "data/dog": 3, "split/train/cat": 2, "split/test/cat": 1})
    with pytest.raises(UnclearLayout) as caught:
        _understand([*paths, "results/plot.png"])
    first, second, third, _ = caught.value.choices
    assert (first.words, first.images) == ("what is in data/ (cat, dog)", "data")
    assert (second.words, second.images) == ("what is in split/ (test, train)", "split")
    assert third.meaning.options() == {"label_pattern": "(?P<label>[^/]+)/.*"}
    assert "ingest set/data;" in str(caught.value)
    counts, _ = _count(paths, **third.meaning.options())
    assert counts == {(None, "data"): 6, (None, "split"): 3}
    with pytest.raises(UnclearLayout) as caught:
        _understand(_paths({"cat": 3, "dog": 3, "results": 1}))
    alone, _ = caught.value.choices
    counts, _ = _count(_paths({"cat": 3, "dog": 3, "results": 1}), **alone.meaning.options())
    assert counts == {(None, "cat"): 3, (None, "dog"): 3}


def test_the_same_folders_in_several_are_asked_about():
    names = ("amazon", "dslr", "webcam")
    paths = _paths({f"{top}/images/{c}": 3 for top in names for c in ("mug", "pen")})
    with pytest.raises(UnclearLayout) as caught:
        _understand(paths)
    second, first, *_ = caught.value.choices
    assert second.words == "the classes mug, pen" and first.words.startswith("the classes amazon")
    assert _count(paths, **second.meaning.options())[0] == {(None, "mug"): 9, (None, "pen"): 9}
    years = _paths({f"{c}/{year}": 2 for c in ("cat", "dog") for year in (2019, 2020)})
    assert _count(years)[0] == {(None, "cat"): 4, (None, "dog"): 4}


@pytest.mark.parametrize(
    ("folders", "found"),
    [
        ({"HAM_images_part_1": 5, "HAM_images_part_2": 5}, "are hardly classes"),
        ({"images_001/images": 5, "images_002/images": 5}, "are hardly classes"),
        ({"VG_100K": 5, "VG_100K_2": 5}, "are hardly classes"),
        ({"rose": 5, "iris": 5, "set/rose": 5, "set/iris": 5}, "set/ is hardly a class"),
        ({"animals/cat": 5, "animals/dog": 5, "cars/bus": 5, "cars/van": 5}, "bus, cat, dog, van"),
        ({f"{patient}/{c}": 2 for patient in range(10, 30) for c in (0, 1)}, "in them, 0, 1"),
    ],
    ids=[
        "parts",
        "parts of folders",
        "the rest of one",
        "a copy inside",
        "kinds of kinds",
        "patients",
    ],
)
def test_further_folders_that_are_asked_about(folders, found):
    with pytest.raises(UnclearLayout) as caught:
        _understand(_paths(folders))
    assert found in str(caught.value)


@pytest.mark.parametrize("folders", [["c0", "c1", "c2"], ["0", "1"], ["n01", "n02"], ["s1", "s2"]])
def test_classes_that_are_numbered_are_classes(folders):
    paths = _paths(dict.fromkeys(folders, 3))
    assert _understand(paths) == (IngestOptions(), ())


def test_two_levels_of_classes_in_splits_are_asked_about():
    folders = {"train/G1": 20, "train/G2": 20, "test/G3": 20}
    paths = _paths({f"{top}/{each}": n for top, n in folders.items() for each in ("blur", "sharp")})
    with pytest.raises(
        UnclearLayout, match=r"G1/, G2/, G3/ have folders in them, blur, s"
    ) as found:
        _understand(paths)
    below, own = (choice.meaning.options() for choice in found.value.choices)
    assert _count(paths, **below)[0] == {
        ("train", "blur"): 40, ("train", "sharp"): 40, ("eval", "blur"): 20, ("eval", "sharp"): 20
    }  # fmt: skip
    assert _count(paths, **own)[0] == {("train", "G1"): 40, ("train", "G2"): 40, ("eval", "G3"): 40}


def test_classes_beside_splits_are_asked_about():
    paths = _paths({f"{s}/{c}": 2 for s in ("train", "val", "more") for c in ("a", "b")})
    with pytest.raises(UnclearLayout, match=r"more/ beside them have classes, too") as caught:
        _understand(paths)
    alone, every = (choice.meaning.options() for choice in caught.value.choices)
    assert set(_count(paths, **alone)[0]) == {(s, c) for s in ("train", "eval") for c in "ab"}
    assert _count(paths, **every)[0][(None, "a")] == 2


def test_a_copy_of_the_splits_beside_them_is_given_alone():
    tops = ("", "copy/")
    paths = _paths({f"{top}{s}/{c}": 2 for top in tops for s in ("train", "val") for c in "ab"})
    with pytest.raises(UnclearLayout, match=r"copy/ beside them have classes, too") as caught:
        _understand(paths)
    alone, copy = caught.value.choices
    assert set(_count(paths, **alone.meaning.options())[0]) == {
        (s, c) for s in ("train", "eval") for c in "ab"
    }
    assert (copy.meaning, copy.images) == (None, "copy")


@pytest.mark.parametrize("splits", [{"": None}, {"train/": "train", "test/": "eval"}])
def test_folders_of_images_of_the_same_names_are_asked_about(splits):
    names = [("hi", ".jpg"), ("lo", ".png")]
    years = (2008, 2031)
    paths = [f"{split}{top}/{n}{end}" for split in splits for n in years for top, end in names]
    with pytest.raises(UnclearLayout, match="hi/, lo/ have images of the same names") as caught:
        _understand(paths)
    high, _, every = (choice.meaning.options() for choice in caught.value.choices)
    assert _count(paths, **high)[0] == {(split, ""): 2 for split in splits.values()}
    assert _count(paths, **every)[0] == {(s, c): 2 for s in splits.values() for c in ("hi", "lo")}


@pytest.mark.parametrize(
    ("folders", "are_pairs"),
    [
        (["LR", "HR"], True),
        (["DIV2K_train_LR", "DIV2K_train_HR"], True),
        (["blur", "sharp"], True),
        (["train/input", "train/target", "test/input", "test/target"], True),
        (["A", "B", "label"], True),
        (["a", "b"], False),
        (["A", "B", "C"], False),
        (["low grade", "high grade"], False),
        (["input", "cat"], False),
    ],
)
def test_numbered_images_are_of_pairs_where_folders_are_called_so(folders, are_pairs):
    paths = _paths(dict.fromkeys(folders, 20))[:-1]  # One is missing.
    if are_pairs:
        with pytest.raises(UnclearLayout, match="have images of the same names"):
            _understand(paths)
        return
    assert _understand(paths) == (IngestOptions(), ())
    assert _understand(_paths({"LR": 20, "HR": 10})) == (IngestOptions(), ())


def test_folders_of_other_names_or_numbers_of_images_are_classes():
    paths = ["hi/2008.jpg", "hi/2011.jpg", "lo/2008.jpg"]
    assert _understand(paths)[0] == _understand([*paths, "lo/2012.jpg"])[0] == IngestOptions()


def test_classes_in_names_are_asked_about():
    paths = [f"{name}.{n}.jpg" for name in ("cat", "dog") for n in range(3)]
    with pytest.raises(
        UnclearLayout, match=r"files' names are taken as classes: cat, dog"
    ) as found:
        _understand(paths)
    named, none = (choice.meaning.options() for choice in found.value.choices)
    assert _count(paths, **named)[0] == {(None, "cat"): 3, (None, "dog"): 3}
    assert _understand(paths, **none) == (IngestOptions(label_pattern=None), ())


def test_tables_beside_images_of_no_class_are_asked_about():
    paths = [*_paths({"train_images": 3}), "train.csv", "more/notes.txt"]
    with pytest.raises(
        UnclearLayout, match=r"no folder names classes, and train.csv may"
    ) as caught:
        _understand(paths)
    table, none = caught.value.choices
    assert table.images == "train.csv" and none.meaning.options() == {"label_pattern": None}
    assert _understand(paths, label_pattern=None)[1] == ()


def test_a_list_that_is_a_table_as_well_is_offered_once(tmp_path):
    for folder in ("images_001", "images_002"):
        draw_images(tmp_path / folder, ["0.png"])
    (tmp_path / "test_list.txt").write_text("0.png\n")
    with pytest.raises(UnclearLayout) as caught:
        list_images(str(tmp_path), IngestOptions())
    assert caught.value.choices[0].images == "test_list.txt"


def test_masks_of_a_few_images_are_no_segmentation():
    paths = _paths({"cat": 12, "dog": 12})
    counts, said = _count([*paths, "dog/000_mask.jpg"])
    assert counts == {(None, "cat"): 12, (None, "dog"): 13}
    assert said[0].startswith("only 1 of 25 images have a file called like their mask: dog/000_mas")
    good = {"train/good": 8, "test/good": 3, "test/scratch": 3}
    paths = _paths(good, ".png") + [f"ground_truth/scratch/00{n}_mask.png" for n in range(3)]
    counts, said = _count(paths)
    assert counts == {("train", "good"): 8, ("eval", "good"): 3, ("eval", "scratch"): 3}
    assert said[1] == (
        "ground_truth/: masks of 3 of 14 images are left out; ingest.masks would take them, for "
        "segmentation"
    )


@pytest.mark.parametrize("given", [{"label_pattern": None}, _MASKS], ids=["unlabelled", "masks"])
def test_splits_are_taken_where_folders_name_no_classes(given):
    paths = _paths({"set/train": 3, "set/val": 2})
    options, said = _understand(paths, **given)
    assert options.split_pattern == "(?:[^/]+/){1}(?P<split>train|val)/"
    assert options.splits == {"train": 0.9, "eval": 0.1}
    assert said == ("train/, val/ (eval) are taken as splits",)
    assert _understand(paths, **given, split_pattern="(?P<split>x)") == (
        IngestOptions(**given, split_pattern="(?P<split>x)"),
        (),
    )


def test_masks_beside_each_split_are_masks():
    folders = ("train", "train_labels", "val", "val_labels")
    paths = _paths(dict.fromkeys(folders, 6), ".png")
    with pytest.raises(UserError, match=r"masks, such as 'train_labels/000.png' of 'train/000.png"):
        _understand(paths)


def test_what_is_not_used_is_said():
    paths = _paths({"train/cat": 2, "train/dog": 2, "val/cat": 1, "val/dog": 1})
    options, (said,) = _understand(paths, label_pattern="[^/]+/(?P<label>[^/]+)/.+")
    assert options.split_pattern is None
    assert said.startswith("train/, val/ are not taken as splits, for ingest.label_pattern is set")
    more = ["about/labels.CSV", "meta/train.txt", "notes.txt"]
    _, (said,) = _understand([*_paths({"cat": 2, "dog": 2}), *more])
    assert said.startswith("about/labels.CSV, meta/train.txt: not read, for folders name the class")


@pytest.mark.parametrize(
    ("folder", "split"),
    [
        ("train", "train"), ("TRAINING", "train"), ("train2017", "train"), ("TrainSet", "train"),
        ("images_train", "train"), ("val", "eval"), ("validation_images", "eval"), ("dev", "eval"),
        ("test1", "test"), ("seg_test", "test"), ("tests", None), ("tram", None),
        ("train_test", None),
        ("2017", None), ("contest", None),
    ],
)  # fmt: skip
def test_what_folders_of_splits_are_called(folder, split):
    assert split_named(folder) == split


def test_a_sample_of_very_many_folders_tells_the_same(monkeypatch):
    paths = _paths({f"{s}/n{n:03}": 1 for s in ("train", "val") for n in range(300)})
    whole = _understand(paths)[0]
    monkeypatch.setattr("image_pipeline.components.meaning.counted_folders._MOST_FOLDERS", 50)
    monkeypatch.setattr("image_pipeline.components.meaning.counted_folders._MOST_NAMES", 50)
    few, backwards = Tally(paths), Tally(reversed(paths))
    assert 10 < len(few.folders()) <= 50 and 10 < len(few.names()) <= 50
    assert (few.folders(), sorted(few.names())) == (backwards.folders(), sorted(backwards.names()))
    sampled = understand("set", IngestOptions(), few, lambda: paths)[0]
    assert sampled.split_pattern == whole.split_pattern
    assert sampled.label_pattern == whole.label_pattern


def test_a_listing_is_understood_once_and_keeps_what_was_said(tmp_path):
    for path in _paths({"train/a": 2, "train/b": 2, "val/a": 1, "val/b": 1}):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    first = list_images(str(tmp_path), IngestOptions())
    assert first.classes == {"a": 3, "b": 3}
    assert len(first.options.understood) == 1
    again = list_images(str(tmp_path), first.options)
    assert (again.options, again.fingerprint) == (first.options, first.fingerprint)
