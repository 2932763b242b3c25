import pyarrow as pa
import pytest

from image_pipeline.components.ingest.prepared_rows import (
    count_unusable,
    read_chunk_rows,
    write_rows,
)
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.meaning.options import IngestOptions

pytestmark = pytest.mark.unit

ROWS = [
    {"path": b"a"},
    {"path": b"b", "reason": "corrupt"},
    {"path": b"c", "reason": "text", "is_skipped": True},
    {"path": b"d", "reason": "text", "is_skipped": True},
]


def test_a_chunk_in_parts_is_read_as_one(tmp_path):
    chunk = PreparedChunk(3, True, 4, 1, "name", skipped=2, shards=2, parts=2)
    assert chunk.names == ["name-00000", "name-00001"] and chunk.listed == 2
    work = WorkFolder(str(tmp_path))
    for name, rows in zip(chunk.names, (ROWS[:1], ROWS[1:]), strict=True):
        write_rows([(row, b"") for row in rows], name, work, IngestOptions())
    read = read_chunk_rows(chunk, work)
    assert read["path"].to_pylist() == [b"a", b"b", b"c", b"d"]
    assert count_unusable(read) == (1, 2)


def test_a_chunk_of_files_has_one_part_and_counts_them():
    chunk = PreparedChunk(0, False, 4, 1, "name")
    assert (chunk.names, chunk.listed) == (["name"], 4)


def test_no_row_is_unusable_where_there_is_none():
    assert count_unusable(pa.table({"reason": pa.nulls(0), "is_skipped": pa.nulls(0)})) == (0, 0)
