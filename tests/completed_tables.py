"""Small tables, and what their options are once they are completed."""

import json

from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.tables.table_columns import complete_options

TAGGED = [{"path": "a.jpg", "tags": ["x"], "words": ["y", "z"]}]


def complete_header(tmp_path, header, *rows, **options):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *(rows or ["a.jpg" + ",1" * header.count(",")])]) + "\n")
    return complete_options(str(path), TableOptions(**options))


def complete_rows(tmp_path, rows, **options):
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = complete_options(str(tmp_path / "t.jsonl"), TableOptions(**options))
    assert complete_options(str(tmp_path / "t.jsonl"), found) == found
    return found.columns.get("label"), found.column_types
