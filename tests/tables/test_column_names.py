"""Columns are found by their usual names, or by what the options say; the rest gets a name."""

import pytest

from image_pipeline.components.tables.table_columns import complete_options
from tests.completed_tables import TAGGED, complete_header, complete_rows

pytestmark = pytest.mark.unit


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
