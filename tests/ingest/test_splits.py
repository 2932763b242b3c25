import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.ingest.splits import assign_splits

pytestmark = pytest.mark.unit

HASHES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50)
SPLITS = {"train": 0.8, "eval": 0.1, "test": 0.1}


def _hashes(values):
    return np.array(values, np.uint64)


def test_a_hash_falls_into_its_interval():
    tenth = 2**64 // 10
    hashes = _hashes([0, 8 * tenth - 10**6, 8 * tenth + 10**6, 9 * tenth + 10**6, 2**64 - 1])
    assert assign_splits(hashes, SPLITS).tolist() == [0, 0, 1, 2, 2]


def test_a_single_split_takes_all():
    assert assign_splits(_hashes([0, 2**64 - 1]), {"train": 1.0}).tolist() == [0, 0]


@given(HASHES, HASHES)
def test_adding_records_never_moves_one(old, new):
    before = assign_splits(_hashes(old), SPLITS)
    after = assign_splits(_hashes(old + new), SPLITS)
    assert after[: len(old)].tolist() == before.tolist()


def test_shares_are_met():
    hashes = np.random.default_rng(0).integers(0, 2**64, 100_000, np.uint64)
    shares = np.bincount(assign_splits(hashes, SPLITS)) / len(hashes)
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.005)
