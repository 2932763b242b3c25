import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.ingest.splits import assign_splits, follow_paths, stratify_splits

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


UNITS = st.lists(
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 3), st.integers(1, 6)),
    min_size=1,
    max_size=80,
    unique_by=lambda unit: unit[0],
)
SHARES = st.sampled_from([SPLITS, {"train": 0.5, "eval": 0.5}, {"a": 0.25, "b": 0.3, "c": 0.45}])


@given(UNITS, SHARES)
def test_every_class_gets_its_share_to_within_one_unit(units, splits):
    hashes = _hashes([unit[0] for unit in units])
    labels, records = np.array([unit[1:] for unit in units]).T
    codes = stratify_splits(hashes, labels, records, splits)
    for label in np.unique(labels):
        own = labels == label
        counts = np.bincount(codes[own], weights=records[own], minlength=len(splits))
        shares = records[own].sum() * np.array(list(splits.values()))
        assert (abs(counts - shares) <= records[own].max() + 1e-6).all()


@pytest.mark.parametrize(("per_class", "expected"), [(10, [8, 1, 1]), (100, [80, 10, 10])])
def test_whole_shares_are_met_exactly(per_class, expected):
    labels = np.repeat(np.arange(20), per_class)
    hashes = np.random.default_rng(0).integers(0, 2**64, len(labels), np.uint64)
    codes = stratify_splits(hashes, labels, np.ones(len(labels), np.int64), SPLITS)
    for label in range(20):
        assert np.bincount(codes[labels == label]).tolist() == expected


def test_many_small_classes_do_not_all_round_the_same_way():
    labels = np.repeat(np.arange(2000), 2)  # of which each split but train is due 0.2 records
    hashes = np.random.default_rng(0).integers(0, 2**64, len(labels), np.uint64)
    codes = stratify_splits(hashes, labels, np.ones(len(labels), np.int64), SPLITS)
    assert np.bincount(codes) / len(labels) == pytest.approx([0.8, 0.1, 0.1], abs=0.01)


@given(UNITS, SHARES)
def test_no_class_is_evaluated_that_is_not_learned(units, splits):
    labels, records = np.array([unit[1:] for unit in units]).T
    codes = stratify_splits(_hashes([unit[0] for unit in units]), labels, records, splits)
    if "train" in splits and len(labels) > len(set(labels)):
        assert {*labels[codes == 0]} == {*labels}


def test_classes_of_one_image_each_are_evaluated_all_the_same():
    hashes = np.random.default_rng(0).integers(0, 2**64, 100, np.uint64)
    codes = stratify_splits(hashes, np.arange(100), np.ones(100, np.int64), SPLITS)
    assert np.bincount(codes).tolist() == [86, 6, 8]
    labels = np.maximum(np.arange(100), 1)  # of which one has two
    codes = stratify_splits(hashes, labels, np.ones(100, np.int64), {"train": 0.5, "eval": 0.5})
    assert np.bincount(codes).tolist() == [99, 1]


def test_units_are_cut_in_the_order_of_their_hashes():
    hashes = np.random.default_rng(0).integers(0, 2**64, 100, np.uint64)
    codes = stratify_splits(hashes, np.zeros(100, np.int64), np.ones(100, np.int64), SPLITS)
    assert codes[np.argsort(hashes)].tolist() == [0] * 80 + [1] * 10 + [2] * 10


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 5)), min_size=1, max_size=30))
def test_follow_paths_agrees_with_a_plain_loop(sources):
    def plain(forced, unit):
        named = [each for each, other in sources if other == unit and each >= 0]
        return forced if forced >= 0 or not named else min(named)

    forced, units = np.array(sources).T
    found = follow_paths(forced, units.astype(np.uint64))
    assert found.tolist() == [plain(*source) for source in sources]
