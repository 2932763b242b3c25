"""Names of classes that differ by a slip: told, and made one by an option."""

import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.class_names import ClassNameOptions, find_slips
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import find_tags, further_of
from tests.layouts.drawn import draw_images, labels_of, understand, write_table

pytestmark = pytest.mark.unit
_NFC, _NFD = "th\u00e9", "the\u0301"


def _draw_classes(folder, *names, count=4):
    draw_images(folder, [f"{name}/{n}.png" for name in names for n in range(count)])


def test_classes_that_are_alike_are_told_with_the_option_that_joins_them(tmp_path):
    _draw_classes(tmp_path, "Rose", "rose", "daisy", "daisy ", _NFC, _NFD)
    listing = understand(tmp_path)
    assert len(listing.classes) == 6
    (said,) = listing.noticed
    assert said == (
        "classes differ by blanks, their Unicode form and capital letters alone: 'Rose' and "
        f"'rose'; 'daisy' and 'daisy '; {_NFD!r} and {_NFC!r}; "
        "ingest.labels='{trim: true, normalise: true, fold_case: true}' joins them"
    )
    joined = understand(tmp_path, labels={"normalise": True, "trim": True, "fold_case": True})
    assert joined.classes == {"daisy": 8, "rose": 8, _NFC: 8}
    assert joined.noticed == ()


def test_only_the_options_that_are_needed_are_named():
    (said,) = find_slips({"anger": 3, "ANGER": 2, "joy": 4})
    assert said == (
        "classes differ by capital letters alone: 'anger' and 'ANGER'; "
        "ingest.labels='{fold_case: true}' joins them"
    )


def test_names_that_options_do_not_join_are_renamed_to_the_more_frequent():
    (said,) = find_slips({"golden retriever": 9, "golden_retriever": 2, "pug": 5})
    assert said.endswith(
        "ingest.labels.rename=\"{'golden_retriever': 'golden retriever'}\" joins them"
    )
    options = ClassNameOptions(rename={"golden_retriever": "golden retriever"})
    assert options.join("golden_retriever") == "golden retriever"


@pytest.mark.parametrize(
    "classes", [{"a": 2, "b": 2}, {"c": 3, "c++": 3}, {"": 12}, {}, {"train": 2}]
)
def test_nothing_is_said_of_names_that_are_as_they_should_be(classes):
    assert list(find_slips(classes)) == []


def test_a_class_of_one_image_and_one_called_as_folders_are_is_told():
    single, place = find_slips({"cat": 30, "dog": 28, "dgo": 1, "images": 4}, True)
    assert single.startswith("1 class has a single image: 'dgo'")
    assert place.startswith("classes are called 'images', as folders of no class are")
    (place,) = find_slips({"ant": 30, "BACKGROUND_Google": 28}, True)
    assert place.startswith("classes are called 'BACKGROUND_Google', as folders of no class are")
    assert list(find_slips({"train": 9, "bus": 9}, are_folders=False)) == []


def test_classes_tags_and_boxes_of_tables_are_named_at_one_place(tmp_path):
    draw_images(tmp_path, ["0.png", "1.png", "2.png"])
    options = {"fold_case": True, "rename": {"kitten": "cat"}}
    rows = [["path", "label"], ["0.png", "Kitten"], ["1.png", "CAT"], ["2.png", "Dog"]]
    listing = understand(write_table(tmp_path / "t.csv", rows), labels=options)
    assert labels_of(listing) == {"0.png": "cat", "1.png": "cat", "2.png": "dog"}
    rows = [["path", "label"], ["0.png", "Kitten;CAT"], ["1.png", "Dog"]]
    table = write_table(tmp_path / "t.csv", rows)
    tagged = understand(table, labels=options, tag_separator=";")
    assert [find_tags(ref, tagged.options) for ref in tagged.refs()] == [["cat"], ["dog"]]
    boxes = [{"bbox": [1, 1, 5, 5], "category": name} for name in ("Dog", "CAT", "kitten")]
    (tmp_path / "b.jsonl").write_text(json.dumps({"path": "0.png", "boxes": boxes}))
    boxed = understand(tmp_path / "b.jsonl", labels=options)
    assert boxed.options.boxes.classes == ("cat", "dog")
    ((_, found),) = further_of(next(boxed.refs()), boxed.options)
    assert [box.name for box in found] == ["dog", "cat", "cat"]


def test_classes_that_are_several_joined_are_told_with_the_option_that_makes_them_tags(tmp_path):
    draw_images(tmp_path, [f"{n}.png" for n in range(4)])
    cells = ["hernia|mass", "mass", "hernia", "none"]
    rows = [["path", "label"], *([f"{n}.png", cell] for n, cell in enumerate(cells))]
    table = write_table(tmp_path / "t.csv", rows)
    assert understand(table).noticed[0] == (
        "classes of 'label' are names joined, as 'hernia|mass'; "
        "'ingest.tag_separator=\"|\"' makes these tags"
    )
    tagged = understand(table, tag_separator="|")
    assert find_tags(next(tagged.refs()), tagged.options) == ["hernia", "mass"]
    (single,) = tagged.noticed
    assert single == "1 class has a single image: 'none'; it is in one split alone"


def test_options_of_labels_that_are_not_set_are_not_stored():
    assert "labels" not in IngestOptions().stored_form()
    assert "labels" not in json.loads(IngestOptions().to_json())
    changed = IngestOptions(labels={"trim": True})
    assert changed.stored_form()["labels"]["trim"] is True


def test_names_that_two_options_join_are_told_with_both():
    (said,) = find_slips({"Rose ": 3, "rose": 3})
    assert said.endswith("ingest.labels='{trim: true, fold_case: true}' joins them")


def test_classes_of_boxes_that_are_alike_are_told(tmp_path):
    draw_images(tmp_path, ["0.png"])
    boxes = [{"bbox": [1, 1, 5, 5], "category": name} for name in ("dog", "Dog")]
    (tmp_path / "b.jsonl").write_text(json.dumps({"path": "0.png", "boxes": boxes}))
    assert "'Dog' and 'dog'" in understand(tmp_path / "b.jsonl").noticed[0]


def test_rare_classes_are_known_once_all_images_are_listed(tmp_path):
    _draw_classes(tmp_path, "cat", "dog")
    draw_images(tmp_path, ["dgo/0.png"])
    listing = understand(tmp_path, labels={"min_images": 2})
    assert listing.options.labels.rare == ("dgo",)
    rows = [["path", "label"], ["cat/0.png", "0.5"], ["cat/1.png", "1.5"]]
    with pytest.raises(UserError, match="but images have values"):
        understand(write_table(tmp_path / "t.csv", rows), labels={"min_images": 2})
