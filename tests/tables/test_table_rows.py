"""Rows come out as they were written: every cell, its line, and what is wrong with one."""

import datetime
import decimal
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import read_rows

pytestmark = pytest.mark.unit


def _rows(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_rows(str(path)))


def test_a_list_has_a_path_and_a_label(tmp_path):
    rows = _rows(tmp_path, "list.train.txt", "a/1.jpg 7\nb c/2.jpg\tcat\r\n\n  \nd e.jpg\n")
    assert rows == [
        Row(1, {"path": "a/1.jpg", "label": "7"}),
        Row(2, {"path": "b c/2.jpg", "label": "cat"}),
        Row(5, {"path": "d e.jpg"}),
    ]


CELLS = [("path", "label"), ("1.jpg", "cat"), ('say "hi", you.jpg', "two\nlines"), ("3.jpg", "")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separated_values_of_every_dialect(tmp_path, delimiter, end, encoding):
    lines = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in cells] for cells in CELLS]
    text = end.join(delimiter.join(cells) for cells in lines) + end
    rows = _rows(tmp_path, "x.csv", text.encode(encoding))
    assert [row.cells for row in rows] == [dict(zip(CELLS[0], c, strict=True)) for c in CELLS[1:]]
    assert [row.line for row in rows] == [2, 3, 5]


def test_only_a_tab_separates_in_tsv(tmp_path):
    (row,) = _rows(tmp_path, "x.tsv", "path\tname,of,all\n1.jpg\ta,b\n")
    assert row.cells == {"path": "1.jpg", "name,of,all": "a,b"}


def test_rows_of_other_lengths_are_bad_and_blank_ones_are_none(tmp_path):
    rows = _rows(tmp_path, "x.csv", "path,label\n\n1.jpg\n2.jpg,cat,3\n4.jpg,dog\n")
    assert [(row.line, row.problem) for row in rows] == [
        (3, "the first line names 2 columns, but it has 1"),
        (4, "the first line names 2 columns, but it has 3"),
        (5, None),
    ]


def test_a_column_without_a_name_is_left_out(tmp_path):
    (row,) = _rows(tmp_path, "x.csv", ",path\n0,1.jpg\n")
    assert row.cells == {"path": "1.jpg"}


def test_bytes_that_are_not_utf8_stay_what_they_are(tmp_path):
    (row,) = _rows(tmp_path, "x.csv", b"path\ncaf\xe9.jpg\n")
    assert row.cells["path"] == "caf\udce9.jpg"


UNFINISHED = "Invalid control character at: line 1 column 5 (char 4)"


def test_json_lines_may_lack_keys_and_hold_lists(tmp_path):
    rows = _rows(tmp_path, "x.jsonl", '{"path": "1.jpg", "tags": ["a"]}\n\n[1]\n{"pa\n{"n": 1.5}\n')
    assert rows == [
        Row(1, {"path": "1.jpg", "tags": ["a"]}),
        Row(3, {}, "it is not a JSON object"),
        Row(4, {}, f"it is not a JSON object ({UNFINISHED})"),
        Row(5, {"n": 1.5}),
    ]


def test_parquet_keeps_types_and_counts_rows(tmp_path):
    cells = [{"path": f"{n}.jpg", "n": n, "x": None, "tags": ["a"] * (n % 3)} for n in range(5000)]
    pq.write_table(pa.Table.from_pylist(cells), tmp_path / "x.parquet")
    rows = list(read_rows(str(tmp_path / "x.parquet")))
    assert [row.cells for row in rows] == cells
    assert [row.line for row in rows] == list(range(1, 5001))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.csv",
            'path\n1.jpg\n"2.jpg\n3.jpg\n',
            r"x.csv:3: not a row of a table \(unexpected end",
        ),
        ("x.csv", '"path".x\n1.jpg\n', r"x.csv:1: not a row of a table .*correct its quotes"),
        ("x.csv", 'path\n1.jpg\n"2.jpg', r"x.csv:3: not a row of a table \(unexpected end"),
        ("x.csv", 'path\n"1\n".jpg\n', r"x.csv:2: not a row of a table .*correct its quotes"),
        ("x.csv", "", "x.csv:1: the first line must name the columns, and is empty"),
        ("x.csv", "a,a\n1,2\n", "x.csv:1: two columns are called 'a'; rename one"),
        ("x.csv", "1.jpg,cat,x\n", "x.csv:1: the first line must name the columns, got '1.jpg'"),
        ("x.parquet", "PAR1", "x.parquet' cannot be read: "),
    ],
)
def test_what_cannot_be_read_names_the_line(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        _rows(tmp_path, name, content)


def test_a_missing_table_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match="does not exist; give one that exists"):
        list(read_rows(str(tmp_path / "x.csv")))


def test_json_of_any_depth_is_a_bad_row(tmp_path):
    (row,) = _rows(tmp_path, "x.jsonl", "[" * 100_000)
    assert row.problem == "it is not a JSON object (it is nested too deeply)"


def test_dates_decimals_and_bytes_of_parquet_are_text(tmp_path):
    cells = {"path": b"1.jpg", "day": datetime.date(2026, 1, 31), "n": decimal.Decimal("1.50")}
    pq.write_table(pa.Table.from_pylist([cells]), tmp_path / "x.parquet")
    (row,) = read_rows(str(tmp_path / "x.parquet"))
    assert row.cells == {"path": "1.jpg", "day": "2026-01-31", "n": "1.50"}


def test_half_a_surrogate_pair_is_a_bad_row(tmp_path):
    (row,) = _rows(tmp_path, "x.jsonl", '{"path": "\\ud800.jpg"}')
    assert row.problem == "it is not a JSON object (it has text that is not UTF-8)"


def test_text_that_is_cut_off_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"cannot be read: .*truncated"):
        _rows(tmp_path, "x.csv", "path\n1.jpg\n".encode("utf-16")[:-1])


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(UserError, match="not a regular file"):
        list(read_rows(str(tmp_path / "x.csv")))


def test_spaces_behind_commas_do_not_count(tmp_path):
    (row,) = _rows(tmp_path, "x.csv", 'path, label, n\n1.jpg, "a, b", 3\n')
    assert row.cells == {"path": "1.jpg", "label": "a, b", "n": "3"}
