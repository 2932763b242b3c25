import csv

import hypothesis
import pytest
from hypothesis import strategies as st

from image_pipeline.components.evaluation.csv_text import read_csv, write_csv

pytestmark = pytest.mark.unit


def write_cells(path, *cells):
    write_csv(str(path), ["name"], [[cell] for cell in cells])
    with open(path, newline="") as file:
        return [cell for (cell,) in list(csv.reader(file))[1:]]


def test_what_a_spreadsheet_would_compute_is_text_there(tmp_path):
    formulas = ["=cmd|' /C calc'!A0.jpg", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "'=1", "''=1"]
    written = write_cells(tmp_path / "table.csv", *formulas)
    assert written == [f"'{each}" for each in formulas]
    assert [
        row["name"] for row in read_csv(str(tmp_path / "table.csv"), dict[str, str], "x")
    ] == formulas


def test_other_cells_are_as_they_are(tmp_path):
    cells = ["cat/a=b.jpg", "-1", "+2.5", "it's", "'", "''x", "a\nb", 'q"q', ""]
    assert write_cells(tmp_path / "table.csv", *cells, -1.5) == [*cells, "-1.5"]


@hypothesis.given(st.lists(st.text("'=+-@\t\r\n1a,\"é", max_size=6), min_size=1))
def test_what_is_written_is_read(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    written = write_cells(path, *cells)
    assert [row["name"] for row in read_csv(str(path), dict[str, str], "x")] == cells
    assert not any(cell[:1] in "=@\t\r" for cell in written if cell)
