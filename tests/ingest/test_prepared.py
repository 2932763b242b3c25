"""Rows and payloads come back as they were written, in any order, or an error says they do not."""

import random

import google_crc32c
import pyarrow as pa
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import prepared
from image_pipeline.components.ingest.prepared import (
    CopiedPayloads,
    PayloadReader,
    count_unusable,
    join_spans,
    open_payloads,
    read_chunk_rows,
    write_rows,
)
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder

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
        write_rows([(row, b"") for row in rows], name, work, seed=0)
    read = read_chunk_rows(chunk, work)
    assert read["path"].to_pylist() == [b"a", b"b", b"c", b"d"]
    assert count_unusable(read) == (1, 2)


def test_a_chunk_of_files_has_one_part_and_counts_them():
    chunk = PreparedChunk(0, False, 4, 1, "name")
    assert (chunk.names, chunk.listed) == (["name"], 4)


def test_no_row_is_unusable_where_there_is_none():
    assert count_unusable(pa.table({"reason": pa.nulls(0), "is_skipped": pa.nulls(0)})) == (0, 0)


def _places(*places):
    chunks, offsets, lengths, *_ = zip(*places, strict=True)
    rows = {"chunk": chunks, "payload_offset": offsets, "payload_length": lengths}
    return pa.table(rows | {"record_length": pa.nulls(len(chunks), pa.int64())})


@pytest.fixture
def work(tmp_path):
    """Two chunks of 100 payloads each, of 0 to 9 bytes, and the rows of them in random order."""
    (tmp_path / "prepared").mkdir()
    rows = []
    for chunk in ("a", "b"):
        content = random.Random(chunk).randbytes(450)
        (tmp_path / "prepared" / f"{chunk}.payload").write_bytes(content)
        offset = 0
        for number in range(100):
            payload = content[offset : offset + number % 10]
            place = (chunk, offset, len(payload), google_crc32c.value(payload), None)
            rows.append((place, payload))
            offset += len(payload)
    random.Random(0).shuffle(rows)
    return tmp_path, rows


def test_every_payload_is_read_in_any_order(work):
    folder, rows = work
    with open_payloads(_places(*(place for place, _ in rows)), WorkFolder(str(folder))) as local:
        assert [local.read(*place) for place, _ in rows] == [content for _, content in rows]


@pytest.mark.parametrize("span_bytes", [1, 50, 10**6])
def test_a_copy_has_the_same_payloads(work, monkeypatch, span_bytes):
    folder, rows = work
    monkeypatch.setattr(prepared, "_SPAN_BYTES", span_bytes)
    with open(folder / "copy", "w+b") as file:
        copied = CopiedPayloads(
            _places(*(place for place, _ in rows)), WorkFolder(str(folder)), file
        )
        assert [copied.read(*place) for place, _ in rows] == [content for _, content in rows]


def test_what_lies_near_is_one_span():
    gap, most = prepared._GAP_BYTES, prepared._SPAN_BYTES
    rows = _places(
        *[("b", 0, 5), ("a", 15, 5), ("a", 0, 10)],
        *[("a", 20 + gap + 1, 1), ("b", 5, most - 5), ("b", most, 1)],
    )
    assert join_spans(rows) == [
        [("a", 0, 10), ("a", 15, 20)],
        [("a", 21 + gap, 22 + gap)],
        [("b", 0, 5), ("b", 5, most)],
        [("b", most, most + 1)],
    ]


def _open_in_place(place, folder, file):
    return PayloadReader(WorkFolder(str(folder)))


def _open_copied(place, folder, file):
    return CopiedPayloads(_places(place), WorkFolder(str(folder)), file)


@pytest.mark.whole
@pytest.mark.parametrize("open_", [_open_in_place, _open_copied])
@pytest.mark.parametrize("damage", ["cut", "bit", "gone"])
def test_damage_is_told_with_the_file_and_the_way_out(work, open_, damage):
    folder, rows = work
    place = next(place for place, content in rows if place[0] == "a" and place[1] and content)
    path = folder / "prepared" / "a.payload"
    content = bytearray(path.read_bytes())
    content[place[1]] ^= damage == "bit"
    path.write_bytes(content[: place[1]] if damage == "cut" else content)
    if damage == "gone":
        path.unlink()
    said = "is gone" if damage == "gone" else "has changed since it was written"
    with (
        open(folder / "copy", "w+b") as file,
        pytest.raises(
            UserError, match=rf"a\.payload', .* {said}; delete the folder '{folder}' and run"
        ),
    ):
        open_(place, folder, file).read(*place)


def test_few_files_are_open(work):
    folder, rows = work
    reader = PayloadReader(WorkFolder(str(folder)), max_open=1)
    reader.read(*next(place for place, _ in rows if place[0] == "a"))
    ((_, first),) = reader._open.values()
    reader.read(*next(place for place, _ in rows if place[0] == "b"))
    assert first.closed and list(reader._open) == ["b"]
    reader.close()
