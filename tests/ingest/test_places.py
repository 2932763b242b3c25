import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.ingest.places import count_shards, order_keys, shard_edges

pytestmark = pytest.mark.unit


def _ids(count, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), np.uint64)


def test_keys_depend_on_the_id_and_the_seed_alone():
    ids = _ids(100)
    keys = order_keys(ids, seed=7)
    assert (order_keys(ids[::-1], seed=7)[::-1] == keys).all()
    assert (order_keys(ids, seed=8) != keys).all()


def test_both_halves_of_an_id_count():
    keys = order_keys(np.array([[1, 2], [1, 3], [2, 2], [2, 1]], np.uint64), seed=0)
    assert len(set(keys.tolist())) == 4


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**70])
def test_any_integer_is_a_seed(seed):
    assert order_keys(_ids(3), seed).dtype == np.uint64


def test_orders_of_two_seeds_are_unrelated():
    ids = _ids(10_000)
    ranks = [np.argsort(np.argsort(order_keys(ids, seed))) for seed in (1, 2)]
    # The correlation of two independent orders has standard deviation 1 / sqrt(n) = 0.01.
    assert abs(np.corrcoef(*ranks)[0, 1]) < 0.05


def test_an_order_does_not_follow_the_ids():
    ids = np.stack([np.arange(10_000, dtype=np.uint64), np.zeros(10_000, np.uint64)], axis=1)
    ranks = np.argsort(np.argsort(order_keys(ids, seed=0)))
    assert abs(np.corrcoef(ranks, np.arange(10_000))[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("total_bytes", "records", "shards", "expected"),
    [
        (1000, 50, None, 10),
        (1001, 50, None, 11),
        (10, 50, None, 1),
        (1000, 3, None, 3),
        (9, 50, 7, 7),
    ],
)
def test_count_of_shards(total_bytes, records, shards, expected):
    assert count_shards(total_bytes, records, shard_bytes=100, shards=shards) == expected


@given(st.integers(1, 10_000), st.integers(1, 200))
def test_shards_are_balanced_to_one_record(records, shards):
    counts = np.diff(shard_edges(records, shards))
    assert counts.sum() == records
    assert counts.max() - counts.min() <= 1
