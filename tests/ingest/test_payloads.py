import random

import pyarrow as pa
import pytest

from image_pipeline.components.ingest import payloads
from image_pipeline.components.ingest.payloads import (
    CopiedPayloads,
    PayloadReader,
    join_spans,
    open_payloads,
)

pytestmark = pytest.mark.unit


def _rows(*places):
    chunks, offsets, lengths = zip(*places, strict=True)
    return pa.table({"chunk": chunks, "payload_offset": offsets, "payload_length": lengths})


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
            rows.append(((chunk, offset, number % 10), content[offset : offset + number % 10]))
            offset += number % 10
    random.Random(0).shuffle(rows)
    return tmp_path, rows


def test_every_payload_is_read_in_any_order(work):
    folder, rows = work
    with open_payloads(_rows(*(place for place, _ in rows)), str(folder)) as local:
        assert [local.read(*place) for place, _ in rows] == [content for _, content in rows]


@pytest.mark.parametrize("span_bytes", [1, 50, 10**6])
def test_a_copy_has_the_same_payloads(work, monkeypatch, span_bytes):
    folder, rows = work
    monkeypatch.setattr(payloads, "_SPAN_BYTES", span_bytes)
    with open(folder / "copy", "w+b") as file:
        copied = CopiedPayloads(_rows(*(place for place, _ in rows)), str(folder), file)
        assert [copied.read(*place) for place, _ in rows] == [content for _, content in rows]


def test_what_lies_near_is_one_span():
    gap, most = payloads._GAP_BYTES, payloads._SPAN_BYTES
    rows = _rows(
        *[("b", 0, 5), ("a", 15, 5), ("a", 0, 10)],
        *[("a", 20 + gap + 1, 1), ("b", 5, most - 5), ("b", most, 1)],
    )
    assert join_spans(rows) == [
        [("a", 0, 10), ("a", 15, 20)],
        [("a", 21 + gap, 22 + gap)],
        [("b", 0, 5), ("b", 5, most)],
        [("b", most, most + 1)],
    ]


def test_a_file_that_ends_early_is_named(work):
    folder, _ = work
    with pytest.raises(OSError, match=r"a\.payload ends before byte 500; delete the work folder"):
        PayloadReader(str(folder)).read("a", 440, 60)


def test_few_files_are_open(work):
    folder, _ = work
    reader = PayloadReader(str(folder), max_open=1)
    reader.read("a", 0, 1)
    (first,) = reader._open.values()
    reader.read("b", 0, 1)
    assert first.closed and list(reader._open) == ["b"]
    reader.close()
