"""What one row of a table can do to the others: nothing; and what a table may hold."""

import csv
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import parse_json
from image_pipeline.components.record_files import columnar_rows
from image_pipeline.components.record_files.columnar_rows import Columns
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.source_kinds import read_rows
from image_pipeline.components.tables import text_rows
from image_pipeline.components.tables.table import Table
from image_pipeline.components.tables.table_columns import complete_options
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit


def _list(tmp_path, name, text, **options):
    (tmp_path / "1.png").write_bytes(b"x")
    (tmp_path / "2.png").write_bytes(b"x")
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    options = complete_options(str(path), TableOptions(**options))
    return options, list(Table(str(path), options).list())


GOOD = [{"path": "1.png", "label": "a", "n": 1}, {"path": "2.png", "label": "b", "n": 2}]


@pytest.mark.parametrize(
    ("line", "problem", "says"),
    [
        ('{"path": "1.png", "label": "a", "label": "b"}', "bad_row", "'label' appears twice"),
        ('{"path": "1.png", "x": {"a": 1, "b": 2, "a": 3}}', "bad_row", "'a' appears twice"),
        ("[" * 100_000, "bad_row", "nested too deeply"),
        ('{"a":' * 50_000, "bad_row", "nested too deeply"),
        ('{"path": "1.png", "n": ' + "9" * 5000 + "}", "bad_row", "too many digits"),
        ('{"path": "\\ud800"}', "bad_row", "text that is not UTF-8"),
        ('{"path": ["1.png"], "label": "a", "n": 1}', "wrong_type", "must have a path"),
        ('{"path": {"a": 1}, "label": "a", "n": 1}', "wrong_type", "must have a path"),
        ('{"path": "4.png", "label": ["a"], "n": 1}', "wrong_type", "must be one value"),
        ('{"path": "4.png", "label": "a", "n": [1]}', "wrong_type", "must be of type int"),
        ('{"path": "4.png", "label": "a", "n": {"a": 1}}', "wrong_type", "must be of type int"),
        (json.dumps(dict.fromkeys(map(str, range(10_001)))), "bad_row", "10,001 keys"),
        ("null", "bad_row", "not a JSON object"),
    ],
)
def test_a_line_of_json_costs_its_row(tmp_path, line, problem, says):
    text = "\n".join([*map(json.dumps, GOOD), line, json.dumps({"path": "3.png", "n": 3})])
    options, refs = _list(tmp_path, "t.jsonl", text)
    assert [ref.problem for ref in refs] == [None, None, problem, "missing_file"]
    assert refs[2].message.startswith("t.jsonl:3: ") and says in refs[2].message
    assert options.column_types == {"n": "int"}


def test_a_key_of_one_row_is_empty_in_the_others(tmp_path):
    rows = [*GOOD[:1], {**GOOD[1], "only": 7}]
    for order in (rows, rows[::-1]):
        options, refs = _list(tmp_path, "t.jsonl", "\n".join(map(json.dumps, order)))
        assert options.column_types == {"n": "int", "only": "float"}
        assert [ref.problem for ref in refs] == [None, None]


def test_half_of_the_cells_decide_what_a_column_is(tmp_path):
    cells = [1, 2, [3], [4]]
    for share, count in ((4, 2), (3, 1)):
        text = "\n".join(json.dumps({"path": f"{n}.png", "n": n}) for n in cells[:share])
        if 2 * count >= share:
            with pytest.raises(UserError, match="'n' cannot be kept"):
                _list(tmp_path, "t.jsonl", text)
        else:
            assert _list(tmp_path, "t.jsonl", text)[0].column_types == {"n": "int"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('"width": 8', '"width": 8, "width": 9'), "the key 'width' appears twice"),
        (('"width": 8', f'"width": {"9" * 5000}'), "a number has too many digits"),
        (('"width": 8', f'"width": {"[" * 100_000}'), "it is nested too deeply"),
    ],
)
def test_coco_is_refused_in_a_sentence(tmp_path, change, says):
    images = [{"id": 1, "file_name": "1.png", "width": 8, "height": 8}]
    text = json.dumps({"images": images, "annotations": [], "categories": [{"id": 1, "name": "x"}]})
    with pytest.raises(UserError, match=rf"t.json:1: it is not valid JSON \({says}\)"):
        _list(tmp_path, "t.json", text.replace(*change))


def test_a_long_id_is_not_said_in_full(tmp_path):
    content = {"images": [], "annotations": [{"image_id": "x" * 10**5, "category_id": 1}]}
    with pytest.raises(UserError, match="1 images have annotations") as caught:
        _list(tmp_path, "t.json", json.dumps(content | {"categories": [{"id": 1, "name": "x"}]}))
    assert len(str(caught.value)) < 500


def test_a_size_that_cannot_be_is_none(tmp_path):
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]}
    images = [{"id": 1, "file_name": "1.png", "width": float("inf"), "height": 10**4000}]
    content = {"images": images, "annotations": [box], "categories": [{"id": 1, "name": "x"}]}
    _, (ref,) = _list(tmp_path, "t.json", json.dumps(content))
    assert ref.problem is None and ref.annotations.further[-1][0] == []


def test_cells_of_any_length_are_read(tmp_path):
    long = "1 " * 500_000
    for name, text in (
        ("t.csv", f'path,label,poly\n1.png,a,"{long}"\n2.png,b,\n'),
        ("t.tsv", f"path\tlabel\tpoly\n1.png\ta\t{long}\n2.png\tb\t\n"),
    ):
        _, refs = _list(tmp_path, name, text)
        assert [ref.problem for ref in refs] == [None, None]
        assert [len(ref.annotations.further[0]) for ref in refs] == [len(long), 0]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('"1.png"x,a', r"x.csv:2: it is not a row \(',' expected after '\"'\); correct its quotes"),
        (
            "1.png," + "a" * 200,
            r"x.csv:2: it is not a row \(field larger than field limit \(100\)\)",
        ),
        ("1.png", "x.csv:2: the first line names 2 columns, but it has 1"),
    ],
)
def test_a_line_of_csv_costs_its_row(tmp_path, row, says, monkeypatch):
    before = csv.field_size_limit(100)
    try:
        (tmp_path / "x.csv").write_text(f"path,label\n{row}\n2.png,b\n")
        bad, good = read_rows(str(tmp_path / "x.csv"))
    finally:
        csv.field_size_limit(before)
    assert f"x.csv:{bad.line}: {bad.problem}".startswith(says.replace("\\", ""))
    assert (good.line, good.cells) == (3, {"path": "2.png", "label": "b"})


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.txt"])
def test_a_line_without_end_is_not_held(tmp_path, name, monkeypatch):
    monkeypatch.setattr(text_rows, "_MOST_CHARACTERS", 2**18)
    (tmp_path / name).write_bytes(b"path,label\nx,y\n" + b"x" * 2**20)
    with pytest.raises(UserError, match=rf"{name}:3: a line may have 262,144 bytes"):
        list(read_rows(str(tmp_path / name)))
    (tmp_path / name).write_bytes(b"path,label\n" + b"x,y\n" * 2**18)
    assert len(list(read_rows(str(tmp_path / name)))) >= 2**18


def test_quotes_without_end_are_held_up_to_a_limit(tmp_path):
    assert csv.field_size_limit() == 2**25 < sys.maxsize
    (tmp_path / "t.csv").write_text('path,label\n1.png,"' + "a\n" * 2**25)
    with pytest.raises(UserError, match=r"t.csv:2: not a row of a table \(field larger"):
        list(read_rows(str(tmp_path / "t.csv")))


def test_a_table_has_a_limit_of_columns(tmp_path):
    names = [f"c{number}" for number in range(10_000)]
    (tmp_path / "t.csv").write_text(",".join(["path", *names]) + "\n")
    with pytest.raises(UserError, match=r"names 10,001 columns; a table may have 10,000"):
        list(read_rows(str(tmp_path / "t.csv")))
    rows = [{"path": "1.png", **dict.fromkeys(half, 1)} for half in (names[:6000], names[4000:])]
    with pytest.raises(UserError, match=r"t.jsonl:2: the table has more than 10,000 columns"):
        _list(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows)))


def test_json_is_parsed_or_refused_in_a_sentence():
    assert parse_json('{"a": {"b": [1, {"a": 2}]}, "b": 1}') == {"a": {"b": [1, {"a": 2}]}, "b": 1}
    with pytest.raises(ValueError, match="the key 'b' appears twice"):
        parse_json('[{"a": {"b": 1, "c": 2, "b": 3}}]')
    with pytest.raises(ValueError, match="Expecting property name"):
        parse_json("{x")


FEATURES = ["x", 1, [], [[]], ["x"], {"_type": "ClassLabel"}, {"_type": "ClassLabel", "names": 5}]


@pytest.mark.parametrize(
    "said", ["[" * 10**5, "x", "[]", '{"info": []}', '{"info": {"features": 1}}']
)
def test_what_a_parquet_file_says_of_its_columns_may_be_anything(tmp_path, said):
    table = pa.table({"path": ["1.png", "2.png"], "label": [0, 1], "s": [{"a": [1]}, {"a": [2]}]})
    names = ("label", "path", "s")
    named = [{"info": {"features": dict.fromkeys(names, feature)}} for feature in FEATURES]
    for text in (said, *map(json.dumps, named)):
        pq.write_table(table.replace_schema_metadata({"huggingface": text}), tmp_path / "t.parquet")
        assert [row.cells["label"] for row in read_rows(str(tmp_path / "t.parquet"))] == [0, 1]


def test_a_group_of_rows_without_the_column_of_images_is_refused(tmp_path, monkeypatch):
    image = {"bytes": encode_png(draw(1)), "path": "1.png"}
    pq.write_table(pa.table({"image": [image, image]}), tmp_path / "t.parquet")
    monkeypatch.setattr(columnar_rows, "find_columns", lambda *_: Columns({"image": "image.byteS"}))
    with pytest.raises(UserError, match=r"a group of rows has no column 'image.byteS'"):
        list(read_rows(str(tmp_path / "t.parquet")))
