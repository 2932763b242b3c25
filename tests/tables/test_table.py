"""A table gives references: what each row says, where its file is, and which rows are bad."""

import dataclasses
import json
import math
import os

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.references import Annotations, ImageRef, fingerprint_refs
from image_pipeline.components.sources.rows import EmbeddedImage, Location, Row, Unusable
from image_pipeline.components.sources.source_kinds import kind_of, list_tables
from image_pipeline.components.tables.table import Table
from image_pipeline.components.tables.table_columns import complete_options

pytestmark = pytest.mark.unit


def _write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def _open(path, **options):
    return Table(str(path), complete_options(str(path), TableOptions(**options)))


def _list(path, follow_links=False, **options):
    return list(dataclasses.replace(_open(path, **options), follow_links=follow_links).list())


@pytest.fixture
def photos(tmp_path):
    for name in ("a/1.jpg", "a/2.jpg", "b/3.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(b"x" * int(name[2]))
        os.utime(tmp_path / "photos" / name, ns=(5, 5))
    return tmp_path / "photos"


def test_a_table_is_told_by_its_ending_and_a_folder_by_being_one(tmp_path):
    assert all(kind_of(f"x.{e}").is_table for e in ("txt", "lst", "csv", "TSV", "jsonl", "parquet"))
    assert kind_of("gs://bucket/x.csv").is_table and kind_of("list.{SPLIT}.txt").is_table
    assert not kind_of("photos").is_table and not kind_of("x.tar").is_table
    (tmp_path / "odd.csv").mkdir()
    assert not kind_of(str(tmp_path / "odd.csv")).is_table


def test_rows_become_references_in_their_order(photos):
    table = photos / "train.csv"
    table.write_text("path,label,who,split,age\nb/3.jpg,cat,p1,eval,7\na/1.jpg,dog,p2,,\n")
    first, second = _list(table, columns={"group": "who"})
    assert first == ImageRef(
        "b/3.jpg", 3, 5, annotations=Annotations("train.csv:2", "cat", "p1", "eval", (7.0,))
    )
    assert math.isnan(second.annotations.further[0])
    assert dataclasses.replace(second.annotations, further=()) == Annotations(
        "train.csv:3", "dog", "p2", ""
    )


def test_one_file_has_one_name_however_it_is_written(photos):
    table = photos / "list.txt"
    table.write_text(f"./a/1.jpg 0\na//2.jpg 0\n{photos}/b/3.jpg 1\n")
    assert [ref.path for ref in _list(table)] == ["a/1.jpg", "a/2.jpg", "b/3.jpg"]


@pytest.mark.parametrize("root", ["../photos", "{photos}"])
def test_paths_start_from_the_tables_folder_or_from_the_root(photos, tmp_path, root):
    _write(tmp_path, lists__x_txt="a/1.jpg 0\n")
    table = (tmp_path / "lists" / "x_txt").rename(tmp_path / "lists" / "x.txt")
    assert _list(table)[0].problem == "missing_file"
    (ref,) = _list(table, root_dir=root.format(photos=photos))
    assert (ref.path, ref.problem, ref.size_bytes) == ("a/1.jpg", None, 1)


def test_bad_rows_say_what_and_where(photos):
    table = photos / "t.csv"
    table.write_text(
        "path,label,n\na/1.jpg,x,1\n,x,2\nnope.jpg,x,3\na/2.jpg\n./a/1.jpg,x,4\nb/3.jpg,y,z\na,y,5\n"
    )
    refs = _list(table, column_types={"n": "int"})
    assert [(ref.path, ref.problem, ref.message) for ref in refs] == [
        ("a/1.jpg", None, ""),
        ("t.csv:3", "no_path", "t.csv:3: the column 'path' is empty"),
        ("nope.jpg", "missing_file", "t.csv:4: there is no file 'nope.jpg'"),
        ("t.csv:5", "bad_row", "t.csv:5: the first line names 3 columns, but it has 1"),
        ("t.csv:6", "listed_twice", "t.csv:6: names 'a/1.jpg' again, as t.csv:2 does"),
        ("t.csv:7", "wrong_type", "t.csv:7: the column 'n' must be of type int: 'z' is not an int"),
        ("a", "not_a_file", "t.csv:8: 'a' is a folder, or no regular file"),
    ]


@pytest.mark.parametrize("row", [",x", "nope.jpg,x", "a/1.jpg", "a/2.jpg,x"])
def test_a_bad_row_is_an_error_by_policy(photos, row):
    table = photos / "t.csv"
    table.write_text(f"path,label\na/2.jpg,x\n{row}\n")
    assert [ref.problem is None for ref in _list(table)] == [True, False]
    with pytest.raises(UserError, match=r"t.csv:3: .*ingest.bad_rows=error; correct the row"):
        _list(table, bad_rows="error")


def test_a_table_for_each_split(photos):
    for split, path in (("train", "a/1.jpg"), ("val", "a/2.jpg")):
        (photos / f"list.{split}.txt").write_text(f"{path} 0\nb/3.jpg 1\n")
    (photos / "list.txt").write_text("")
    pattern = str(photos / "list.{SPLIT}.txt")
    assert [split for _, split in list_tables(pattern)] == ["train", "val"]
    refs = _list(pattern)
    assert [(ref.annotations.row, ref.annotations.split, ref.problem) for ref in refs] == [
        ("list.train.txt:1", "train", None),
        ("list.train.txt:2", "train", None),
        ("list.val.txt:1", "val", None),
        ("list.val.txt:2", None, "listed_twice"),  # in both: it would leak
    ]
    with pytest.raises(UserError, match="No table is called"):
        list_tables(str(photos / "nope.{SPLIT}.txt"))


@pytest.mark.parametrize("root", ["../{SPLIT}2017", "{SPLIT}", "../x/{SPLIT}/in"])
def test_each_splits_paths_may_start_from_a_folder_of_its_own(tmp_path, root):
    table = tmp_path / "lists" / "of_{SPLIT}.txt"
    for split in ("train", "val"):
        folder = table.parent / root.replace("{SPLIT}", split)
        _write(folder, **{"a.jpg": split})
        absolute = folder.resolve() / "a.jpg"
        _write(table.parent, **{f"of_{split}.txt": f"a.jpg x\n./a.jpg y\n{absolute} x\n"})
    refs = _list(table, root_dir=root)
    own = root.removeprefix("../").removeprefix("x/")
    assert {ref.problem for ref in refs} == {"listed_twice"}
    for split in ("train", "val"):
        _write(table.parent, **{f"of_{split}.txt": "a.jpg x\nno.jpg y\n"})
    refs = _list(table, root_dir=root)
    assert [(ref.path, ref.size_bytes, ref.annotations.split) for ref in refs] == [
        (f"{own.replace('{SPLIT}', split)}/{name}", size, split)
        for split, own_size in (("train", 5), ("val", 3))
        for name, size in (("a.jpg", own_size), ("no.jpg", 0))
    ]


def test_the_fingerprint_sees_a_changed_cell(photos):
    table = photos / "t.csv"
    table.write_text("path,label\na/1.jpg,x\n")
    before = fingerprint_refs(_list(table))
    table.write_text("path,label\na/1.jpg,y\n")
    assert fingerprint_refs(_list(table)) != before


def test_a_file_with_several_labels_has_none(photos):
    table = photos / "t.csv"
    table.write_text("path,label\na/1.jpg,x\na/2.jpg,x\n./a/1.jpg,y\n")
    assert [(ref.path, ref.problem, ref.message) for ref in _list(table)] == [
        ("t.csv:2", "listed_twice", "t.csv:2: 'a/1.jpg' has the labels 'x', 'y'"),
        ("a/2.jpg", None, ""),
        ("t.csv:4", "listed_twice", "t.csv:4: 'a/1.jpg' has the labels 'x', 'y'"),
    ]


def test_dots_behind_a_link_lead_where_the_system_says(photos, tmp_path):
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "other" / "1.jpg").write_bytes(b"other")
    (photos / "link").symlink_to(tmp_path / "other" / "deep")
    (photos / "1.jpg").write_bytes(b"x")
    (photos / "t.csv").write_text("path,label\nlink/../1.jpg,x\n")
    (ref,) = _list(photos / "t.csv", follow_links=True)
    assert (ref.path, ref.size_bytes) == ("link/../1.jpg", 5)
    assert _list(photos / "t.csv")[0].problem == "outside"


def test_nan_is_empty_and_a_list_is_no_label(photos):
    rows = [
        {"path": "a/1.jpg", "label": math.nan, "group": math.nan},
        {"path": "a/2.jpg", "label": ["x"], "group": 1.0},
        {"path": "b/3.jpg", "label": 7, "group": 2.0},
    ]
    (photos / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = TableOptions(columns={"image": "path", "label": "label", "group": "group"})
    first, second, third = Table(str(photos / "t.jsonl"), options).list()
    assert (first.annotations.label, first.annotations.group) == ("", "")
    assert second.problem == "wrong_type" and "must be one value, got ['x']" in second.message
    assert (third.annotations.label, third.annotations.group) == ("7", "2")


def test_the_splits_name_is_in_the_tables_own(photos):
    with pytest.raises(UserError, match="must be once in the name of a table"):
        list_tables(str(photos / "{SPLIT}" / "list.txt"))


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([{"path": ["a.jpg"]}], "['a.jpg']"),
        ([{"path": {"x": [1]}}], "{'x': [1]}"),
        ([{"path": "a" * 5000}], repr("a" * 97 + "..." + "a" * 98)),
    ],
)
def test_a_cell_that_can_be_no_path_is_the_rows_problem(photos, rows, shown):
    """A table may change after its options were completed."""
    rows = [*rows, *rows, {"path": "a/1.jpg"}]
    (photos / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = Table(str(photos / "t.jsonl"), TableOptions(columns={"image": "path"}))
    first, second, last = table.list()
    assert first.problem == second.problem == "wrong_type"
    assert second.message == f"t.jsonl:2: the column 'path' must have a path, got {shown}"
    assert (last.path, last.problem) == ("a/1.jpg", None)


def test_a_list_as_the_name_of_an_image_that_the_row_holds_is_the_rows_problem():
    held = EmbeddedImage(Location("t.h5", "array", 0), 5)
    table = Table("t.h5", TableOptions(columns={"image": "x", "path": "name"}))
    for name in (["a"], {"a": 1}, Unusable("why")):
        row = Row(0, {"x": held, "name": name})
        assert table._path_of("t.h5:0", None, row) == "t.h5/00000000"
        assert table.reference("t.h5:0", None, row).problem == "wrong_type"


def test_of_a_file_with_many_labels_a_few_are_named(photos):
    rows = "".join(f"a/1.jpg,x{n:03d}\n" for n in range(300))
    (photos / "t.csv").write_text(f"path,label\n{rows}")
    *_, last = _list(photos / "t.csv")
    assert last.problem == "listed_twice"
    assert last.message.startswith("t.csv:301: 'a/1.jpg' has the labels 'x000', 'x001', ")
    assert last.message.endswith(", 'x008', 'x009' and 290 more")
