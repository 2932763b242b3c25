"""Types of columns are found by their values, or given; what fits none is an error."""

import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.tables.table import Table
from image_pipeline.components.tables.table_columns import complete_options
from tests.completed_tables import TAGGED, complete_header, complete_rows

pytestmark = pytest.mark.unit


def test_keys_that_only_some_rows_have_are_columns(tmp_path):
    rows = [{"path": "a.jpg"}, {"path": "b.jpg", "age": 7}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = complete_options(str(tmp_path / "t.jsonl"), TableOptions())
    assert found.column_types == {"age": "float"}  # The first row's is empty.


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("a,b", {}, "No column of .* looks like an image path. .* Columns: a, b"),
        ("path,y", {"columns": {"label": "Y"}}, "names 'Y' as label, .* did you mean y"),
        ("path,a", {"columns": {"height": "a"}}, "may not use the name 'height'"),
        ("path,a b,a_b", {}, "Two columns would be called 'a_b', 'a b' and 'a_b'"),
        ("path,a", {"column_types": {"b": "int"}}, "names 'b', but the further columns .* are a"),
    ],
)
def test_what_does_not_fit_is_an_error(tmp_path, header, options, message):
    with pytest.raises(UserError, match=message):
        complete_header(tmp_path, header, **options)


def test_a_column_of_objects_must_be_left_out(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"path": "a.jpg", "meta": {"x": 1}}')
    with pytest.raises(UserError, match=r"t.jsonl:1: the column 'meta' .*\{meta: null\}"):
        complete_options(str(tmp_path / "t.jsonl"), TableOptions())
    found = complete_options(str(tmp_path / "t.jsonl"), TableOptions(columns={"meta": None}))
    assert found.column_types == {}


def test_a_type_that_is_given_lets_rows_of_another_be_quarantined(tmp_path):
    rows = [{"path": "a.jpg", "tags": ["x"], "n": [1]}, {"path": "b.jpg", "tags": "y", "n": 2}]
    message = r"t.jsonl:2: the column 'tags' .* others are not\); .*column_types=\{label: …\}"
    with pytest.raises(UserError, match=message):
        complete_rows(tmp_path, rows)
    with pytest.raises(UserError, match=r"t.jsonl:2: the column 'n' .*column_types=\{n: …\}"):
        complete_rows(tmp_path, rows, column_types={"label": "strings"})
    types = {"label": "strings", "n": "ints"}
    assert complete_rows(tmp_path, rows, column_types=types) == ("tags", types)
    table = tmp_path / "t.jsonl"
    (tmp_path / "a.jpg").touch()
    options = complete_options(str(table), TableOptions(column_types=types))
    listed = [ref.message for ref in Table(str(table), options).list()]
    assert listed == ["", "t.jsonl:2: the column 'tags' must be of type strings: 'y' is not a list"]


def test_one_hot_rows_are_no_tags(tmp_path):
    rows = [{"path": f"{n}.jpg", "label": [float(n == m) for m in range(3)]} for n in range(3)]
    with pytest.raises(UserError, match=r"'label' has lists of numbers, .* write the name or the"):
        complete_rows(tmp_path, rows)
    types = {"label": "strings"}
    assert complete_rows(tmp_path, rows, column_types=types) == ("label", types)


def test_a_table_without_rows_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\n")
    with pytest.raises(UserError, match=r"no row that can be read \(it is empty\)"):
        complete_options(str(tmp_path / "t.csv"), TableOptions())


def test_the_first_row_of_a_table_without_good_ones_is_named(tmp_path):
    with pytest.raises(UserError, match=r"t.csv:2: the first line names 2 columns, but it has 1"):
        complete_header(tmp_path, "path,label", "a.jpg")


def test_a_label_of_fractions_is_a_value_unless_it_is_said_to_be_a_class(tmp_path):
    rows = [{"path": "a.jpg", "label": 0.5}, {"path": "b.jpg", "label": 2}]
    assert complete_rows(tmp_path, rows) == ("label", {"label": "float"})
    as_class = {"column_types": {"label": "string"}}
    assert complete_rows(tmp_path, rows, **as_class) == ("label", {"label": "string"})
    whole = [row | {"label": 3} for row in rows]
    assert complete_rows(tmp_path, whole) == ("label", {})
    as_value = {"column_types": {"label": "float"}}
    assert complete_rows(tmp_path, whole, **as_value) == ("label", {"label": "float"})


def test_a_separator_makes_tags_of_text(tmp_path):
    rows = [{"path": "a.jpg", "tags": "x;y", "label": "z"}]
    columns = {"label": "tags", "class_name": "label"}
    expected = ("tags", {"class_name": "string", "label": "strings"})
    assert complete_rows(tmp_path, rows, columns=columns, tag_separator=";") == expected


def test_a_label_of_no_such_type_or_name_is_refused(tmp_path):
    with pytest.raises(UserError, match="label must be string"):
        complete_rows(tmp_path, TAGGED, column_types={"label": "int"})
    named = {"label": "words"}
    with pytest.raises(UserError, match="label 'words' is kept as 'tags', and so is the column"):
        complete_rows(tmp_path, TAGGED, columns=named)


def test_lists_where_an_image_or_mask_must_be_are_refused(tmp_path):
    for column in ("path", "mask"):
        row = {"path": "a.jpg"} | {column: ["a.jpg"]}
        message = f"The column {column!r} of .* has lists, but must have a path a row, .*by ingest"
        with pytest.raises(UserError, match=message):
            complete_rows(tmp_path, [row])


def test_a_column_that_may_have_been_meant_as_the_image_is_named(tmp_path):
    message = r"looks like an image path.* Columns: data\. .*:1: the column 'data' cannot be kept"
    with pytest.raises(UserError, match=message):
        complete_rows(tmp_path, [{"data": {"a": 1}}])


def test_usual_names_are_found_and_the_rest_is_kept_by_name(tmp_path):
    found = complete_header(
        tmp_path, "Patient Age,filename,Class,site,split,height", "7,a.jpg,cat,x,train,9"
    )
    assert found.columns == {
        "image": "filename",
        "label": "Class",
        "split": "split",
        "Patient_Age": "Patient Age",
        "site": "site",
        "table_height": "height",
    }
    assert found.column_types == {"Patient_Age": "int", "site": "string", "table_height": "int"}


def test_what_is_given_stays_and_null_leaves_a_column_out(tmp_path):
    found = complete_header(
        tmp_path,
        "id,path,label,note",
        columns={"image": "id", "where": "path", "note": None},
        column_types={"where": "string"},
    )
    assert found.columns == {"image": "id", "label": "label", "note": None, "where": "path"}
    assert found.column_types == {"where": "string"}


def test_what_was_completed_once_stays(tmp_path):
    left_out = {"note": None, "split": None, "b_c": None}
    once = complete_header(tmp_path, "path,label,b c,a,note,split,height", columns=left_out)
    assert once.columns == left_out | {
        **{"image": "path", "label": "label", "a": "a", "table_height": "height"}
    }
    assert complete_options(str(tmp_path / "t.csv"), once) == once


def test_names_that_conditions_cannot_use_are_prefixed(tmp_path):
    found = complete_header(tmp_path, "path,label,from,Âge (µm)")
    assert found.columns["table_from"] == "from"
    assert found.columns["Âge_μm"] == "Âge (µm)"  # As Python reads the name.


def test_a_list_is_the_label_where_no_class_is(tmp_path):
    both = {"words": "strings"}
    assert complete_rows(tmp_path, TAGGED) == ("tags", both | {"label": "strings"})
    named = {"columns": {"tags": "words", "keywords": "tags"}}
    expected = ("words", {"keywords": "strings", "label": "strings"})
    assert complete_rows(tmp_path, TAGGED, **named) == expected
    labelled = [TAGGED[0] | {"label": "cat"}]
    assert complete_rows(tmp_path, labelled) == ("label", both | {"tags": "strings"})
    chosen = {"columns": {"label": "words", "tags": None}}
    assert complete_rows(tmp_path, TAGGED, **chosen) == ("words", {"label": "strings"})
    left_out = {"columns": {"tags": None}}
    assert complete_rows(tmp_path, TAGGED, **left_out) == (None, both)
