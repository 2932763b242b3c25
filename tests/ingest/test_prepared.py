"""Rows and payloads come back as they were written, in any order, or an error says they do not."""

import itertools
import random

import google_crc32c
import pyarrow as pa
import pytest

from image_pipeline.components.dataset.tfrecord import HEADER_BYTES, frame
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import prepared
from image_pipeline.components.ingest.prepared import (
    ROW_SCHEMA,
    CopiedPayloads,
    PayloadReader,
    Place,
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
    columns = zip(*(Place(*place) for place in places), strict=True)
    rows = dict(zip(Place._fields, map(list, columns), strict=True))
    return pa.table(rows, pa.schema([ROW_SCHEMA.field(name) for name in Place._fields]))


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
            place = Place(chunk, offset, len(payload), google_crc32c.value(payload))
            rows.append((place, payload))
            offset += len(payload)
    random.Random(0).shuffle(rows)
    return tmp_path, rows


def test_every_payload_is_read_in_any_order(work):
    folder, rows = work
    with open_payloads(_places(*(place for place, _ in rows)), WorkFolder(str(folder))) as local:
        assert [local.read(place) for place, _ in rows] == [content for _, content in rows]


@pytest.mark.parametrize("span_bytes", [1, 50, 10**6])
def test_a_copy_has_the_same_payloads(work, monkeypatch, span_bytes):
    folder, rows = work
    monkeypatch.setattr(prepared, "_SPAN_BYTES", span_bytes)
    with open(folder / "copy", "w+b") as file:
        copied = CopiedPayloads(
            _places(*(place for place, _ in rows)), WorkFolder(str(folder)), file
        )
        assert [copied.read(place) for place, _ in rows] == [content for _, content in rows]


def test_what_lies_near_is_one_span():
    gap, most = prepared._GAP_BYTES, prepared._SPAN_BYTES
    rows = _places(
        *[("b", 0, 5, 0), ("a", 15, 5, 0), ("a", 0, 10, 0)],
        *[("a", 20 + gap + 1, 1, 0), ("b", 5, most - 5, 0), ("b", most, 1, 0)],
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
        open_(place, folder, file).read(place)


@pytest.fixture
def earlier(tmp_path):
    """A shard with three records of an earlier data set, and the places of all, which are kept."""
    payloads = [b"first", b"second", b"third!"]
    framed = [frame(b"said of it: " + payload) for payload in payloads]
    (tmp_path / "shard").write_bytes(b"".join(framed))
    starts = itertools.accumulate((len(each) for each in framed), initial=HEADER_BYTES)
    places = [
        Place("earlier:shard", start, len(payload), google_crc32c.value(payload), 12 + len(payload))
        for start, payload in zip(starts, payloads, strict=False)
    ]
    return tmp_path, framed, [place._replace(is_kept=True) for place in places]


def _open_earlier(open_, places, folder, file):
    work = WorkFolder(str(folder / "work"), earlier=str(folder))
    return PayloadReader(work) if open_ is PayloadReader else open_(_places(*places), work, file)


@pytest.mark.parametrize("open_", [PayloadReader, CopiedPayloads])
def test_records_are_kept_beside_payloads_that_are_taken_of_them(earlier, open_):
    folder, framed, places = earlier
    asked = [*places, places[1]._replace(is_kept=None)]
    with open(folder / "copy", "w+b") as file:
        read = [*map(_open_earlier(open_, asked, folder, file).read, asked)]
    assert read == [*framed, b"second"]


@pytest.mark.parametrize("open_", [PayloadReader, CopiedPayloads])
def test_no_damage_is_kept(earlier, open_):
    folder, framed, places = earlier
    whole, start = (folder / "shard").read_bytes(), len(framed[0])
    for byte in range(start, start + len(framed[1])):
        damaged = bytearray(whole)
        damaged[byte] ^= 4
        (folder / "shard").write_bytes(damaged)
        with open(folder / "copy", "w+b") as file:
            reader = _open_earlier(open_, places, folder, file)
            with pytest.raises(
                UserError, match=r"shard', .* has changed since it was written; delete .sources"
            ):
                reader.read(places[1])
            assert reader.read(places[2]) == framed[2]


def test_another_whole_record_is_not_kept(earlier):
    folder, framed, places = earlier
    (folder / "shard").write_bytes(framed[0] + framed[2] + framed[1])
    with pytest.raises(UserError, match="has changed since it was written"):
        _open_earlier(PayloadReader, places, folder, None).read(places[1])


def test_few_files_are_open(work):
    folder, rows = work
    reader = PayloadReader(WorkFolder(str(folder)), max_open=1)
    reader.read(next(place for place, _ in rows if place[0] == "a"))
    (first,) = reader._open.values()
    reader.read(next(place for place, _ in rows if place[0] == "b"))
    assert first.closed and list(reader._open) == ["b"]
    reader.close()
