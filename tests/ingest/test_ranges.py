"""Every row comes back once, in the range of its key, and ranges are in the keys' order."""

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.ingest import ranges
from image_pipeline.components.ingest.ranges import Ranges, select

pytestmark = pytest.mark.unit

ROW = np.dtype([("number", np.int64), ("hash", np.uint64)])
HASHES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(ranges, "RANGE_ROWS", 4)


def _rows(hashes):
    numbers = np.arange(len(hashes))[::-1]
    return select(numbers, ROW, number=numbers, hash=np.array(hashes, np.uint64))


@given(hashes=HASHES, parts=st.integers(1, 4))
def test_hashes_come_back_in_their_order(tmp_path_factory, hashes, parts):
    folder = tmp_path_factory.mktemp("ranges")
    spread, rows = Ranges(str(folder), ROW, len(hashes)), _rows(hashes)
    for part in np.array_split(rows, parts):
        spread.add_by_hash(part, part["hash"])
    found = list(spread)
    assert len(found) == -(-len(hashes) // 4)
    assert sorted(np.concatenate(found).tolist()) == sorted(rows.tolist())
    for number, each in enumerate(found):
        assert (np.diff(each["number"]) > 0).all()
        first, end = (2**64 * n // len(found) for n in (number, number + 1))
        near = 2**32  # Of a hash, 32 bits choose the range.
        assert all(first - near <= int(key) < end + near for key in each["hash"])
    assert [each.tolist() for each in spread.drain()] == [each.tolist() for each in found]
    assert not np.concatenate(list(spread)).size
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_numbers_are_found_between_any_two(tmp_path):
    spread, rows = Ranges(str(tmp_path), ROW, 30), _rows(range(30))
    kept = rows[rows["number"] % 3 > 0]
    spread.add_by_number(kept, kept["number"])
    for first, end in ((0, 30), (5, 6), (3, 17), (8, 8), (29, 30)):
        found = np.concatenate([kept[:0], *spread.between(first, end)])
        assert sorted(found["number"].tolist()) == [n for n in range(first, end) if n % 3]


def test_positions_may_be_beyond_32_bits(tmp_path):
    spread = Ranges(str(tmp_path), ROW, 2**40)
    rows = _rows([0, 1])
    rows["number"] += 2**40 - 2
    spread.add_by_number(rows, rows["number"])
    (found,) = spread.between(2**40 - 1, 2**40)
    assert found["number"].tolist() == [2**40 - 1]


def test_other_fields_are_as_they_were():
    rows = _rows([7, 8])
    selected = select(rows, np.dtype([("hash", np.uint64), ("shard", np.int64)]), shard=-1)
    assert selected.tolist() == [(7, -1), (8, -1)]


def test_a_full_disk_is_told_as_the_system_does(tmp_path):
    spread = Ranges(str(tmp_path), ROW, 3)
    (folder,) = tmp_path.iterdir()
    (folder / "0").symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        spread.add_by_hash(_rows([1, 2, 3]), np.array([1, 2, 3], np.uint64))
    assert caught.value.errno == errno.ENOSPC
