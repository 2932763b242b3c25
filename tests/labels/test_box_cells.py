"""Cells of boxes, in every way that people write them."""

import pytest

from image_pipeline.components.labels.box_cells import StatedBoxes, may_be_boxes, read_boxes
from image_pipeline.components.labels.boxes import BoxAnnotation
from image_pipeline.components.meaning.column_values import find_separator
from image_pipeline.components.sources.column_types import BoxGuess

pytestmark = pytest.mark.unit

CAT = BoxAnnotation((1.0, 2.0, 3.0, 4.0), "cat")
DOG = BoxAnnotation((5.0, 6.0, 7.0, 8.5), "dog", is_crowd=True)


@pytest.mark.parametrize(
    "cell",
    [
        [
            {"bbox": [1, 2, 3, 4], "category": "cat"},
            {"bbox": [5, 6, 7, 8.5], "category": "dog", "iscrowd": 1},
        ],
        [
            {"box": [1, 2, 3, 4], "label": " cat ", "area": 12},
            {"box": [5, 6, 7, 8.5], "label": "dog", "is_crowd": True},
        ],
        {"bbox": [[1, 2, 3, 4], [5, 6, 7, 8.5]], "categories": ["cat", "dog"], "crowd": [0, 1]},
        '[{"bbox": [1, 2, 3, 4], "class": "cat"}, '
        '{"bbox": [5, 6, 7, 8.5], "class": "dog", "iscrowd": 1}]',
    ],
)
def test_boxes_are_read(cell):
    assert read_boxes(cell) == ([], [CAT, DOG])


def test_lists_of_five_and_numbers_as_classes():
    assert read_boxes([[1, 2, 3, 4, "cat"]]) == ([], [CAT])
    assert read_boxes([[1, 2, 3, 4, 7]])[1][0].name == "7"
    assert read_boxes([[1, 2, 3, 4, 7.0]])[1][0].name == "7"  # As Parquet has nullable ones.
    both = {"bbox": [1, 2, 3, 4], "category_id": 7, "category": "cat"}
    assert read_boxes([both])[1][0].name == "cat"


@pytest.mark.parametrize("cell", [None, "", "  ", [], {}])
def test_nothing_is_no_box(cell):
    assert read_boxes(cell) == ([], [])


def test_a_stated_size_comes_with_the_boxes():
    parts = {"size": [40, 20], "boxes": [{"bbox": [1, 2, 3, 4], "category": "cat"}]}
    assert read_boxes(StatedBoxes(parts)) == ([40, 20], [CAT])


@pytest.mark.parametrize("size", [[40, 20], 3, None])
def test_a_tables_own_keys_are_not_those_of_a_stated_size(size):
    cell = {"boxes": [[1, 2, 3, 4]], "labels": ["cat"], "size": size, "classes": None}
    assert read_boxes(cell) == ([], [CAT])
    guess = BoxGuess()
    guess.see(cell)
    assert guess.classes == ("cat",)


@pytest.mark.parametrize(
    ("cell", "is_so"),
    [
        (None, True),
        ("", True),
        ("[[1, 2", True),
        ('[\n {"a"', True),
        ("{}", True),
        ([{"bbox": None}], True),
        ([[1]], True),
        ({"foo": 3}, True),
        ("two cats", False),
        ("[sic]", False),
        (["cat"], False),
        ([], True),
        (3, False),
    ],
)
def test_a_cell_is_written_as_boxes_are_even_if_it_is_wrong(cell, is_so):
    assert may_be_boxes(cell) is is_so


def test_an_object_of_nothing_is_no_box():
    assert read_boxes({"bbox": None, "category": None}) == ([], [])  # as Parquet has it


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("cat", "'cat' is not valid JSON"),
        (3, "3 is not a list of boxes"),
        ("3", "3 is not a list of boxes"),
        ([3], "3 is not a box: four numbers and a class"),
        (["abcde"], "'abcde' is not a box"),
        ([[1, 2, 3, 4]], r"\[1, 2, 3, 4\] is not a box"),
        ([{"bbox": [1, 2, 3], "category": "cat"}], r"must have four numbers, got \[1, 2, 3\]"),
        ([{"bbox": [1, 2, 3, "4"], "category": "cat"}], "must have four numbers"),
        ([{"bbox": [1, 2, 3, True], "category": "cat"}], "must have four numbers"),
        ([{"bbox": [1, 2, 3, float("nan")], "category": "cat"}], "must have four numbers"),
        ([{"bbox": [1, 2, 3, float("inf")], "category": "cat"}], "must have four numbers"),
        ([{"bbox": [1, 2, 3, 10**400], "category": "cat"}], "must have four numbers"),
        ([{"category": "cat"}], "must have four numbers, got None"),
        ([{"bbox": [1, 2, 3, 4]}], "must have a class, got None"),
        ([{"bbox": [1, 2, 3, 4], "category": " "}], "must have a class, got ' '"),
        ([{"bbox": [1, 2, 3, 4], "category": ["cat"]}], "must have a class"),
        ([{"bbox": [1, 2, 3, 4], "category": "cat", "iscrowd": 2}], "2 does not say whether"),
        ({"bbox": [[1, 2, 3, 4]], "category": []}, "must have lists of one length"),
        ({"bbox": 3}, "must have lists of one length"),
        ({"foo": []}, "must have lists of one length"),
    ],
)
def test_what_is_no_box_is_named(cell, message):
    with pytest.raises(ValueError, match=message):
        read_boxes(cell)


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["a;b", "b;c", "a"], ";"),
        (["a, b", "b, c", "a, b, c", ""], ","),
        (["a|b", "b|a"], "|"),
        (["a,b;c", "c;a,b"], ";"),
        # Names of classes that have a comma, as ImageNet's.
        (["tench, Tinca tinca", "goldfish, Carassius auratus", "crane, bird", "crane"], None),
        (["cat", "dog"], None),
        (["a;b"], None),
        ([], None),
    ],
)
def test_what_stands_between_tags(cells, separator):
    assert find_separator(dict.fromkeys(cells, 3)) == separator


def test_blanks_are_between_tags_where_the_column_is_called_so():
    cells = {"haze primary": 2, "clear primary water": 3, "clear water": 1}
    assert find_separator(cells) is None
    assert find_separator(cells, "Tags") == " "
    assert find_separator({"a b;c": 1, "c;a b": 2}, "tags") == ";"
