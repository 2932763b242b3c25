import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from image_pipeline.components.ingest import clusters
from image_pipeline.components.ingest.clusters import cluster_hashes, join_groups

pytestmark = pytest.mark.unit

# A few centres and a few flipped bits each: some near, some chained, some far.
NEIGHBOURS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 63), max_size=6)), max_size=30
)
CENTRES = [0, 2**64 - 1, 0x5555555555555555, 0x00000000FFFFFFFF]


def _flip(centre, bits):
    for bit in bits:
        centre ^= 1 << bit
    return centre


def _plain_components(count, linked):
    """Every row's component as the smallest row in it: joins until nothing changes."""
    component = list(range(count))
    for _ in range(count):
        for left, right in linked:
            component[left] = component[right] = min(component[left], component[right])
    return component


def _by_first_row(numbers):
    first = {}
    return [first.setdefault(number, row) for row, number in enumerate(numbers.tolist())]


@given(NEIGHBOURS, st.integers(0, 8))
@example([], 4)
def test_clusters_agree_with_comparing_all_pairs(neighbours, max_distance):
    values = [_flip(CENTRES[centre], bits) for centre, bits in neighbours]
    pairs = itertools.combinations(range(len(values)), 2)
    linked = [(i, j) for i, j in pairs if (values[i] ^ values[j]).bit_count() <= max_distance]
    found = cluster_hashes(np.array(values, np.uint64), max_distance)
    assert _by_first_row(found) == _plain_components(len(values), linked)
    assert sorted(set(found.tolist())) == list(range(found.max(initial=-1) + 1))


@pytest.mark.parametrize("limit", ["_LINKS_AT_ONCE", "_PAIRS_AT_ONCE", "_LONG_RUN"])
def test_the_limits_of_memory_change_nothing(limit, monkeypatch):
    generator = np.random.default_rng(0)
    flips = generator.integers(0, 64, (500, 3)).astype(np.uint64)
    hashes = np.bitwise_or.reduce(np.uint64(1) << flips, axis=1)
    expected = cluster_hashes(hashes, 1)
    assert 5 < expected.max() < 495
    monkeypatch.setattr(clusters, limit, 2)
    assert _by_first_row(cluster_hashes(hashes, 1)) == _by_first_row(expected)


@pytest.mark.parametrize("max_distance", range(1, 9))
def test_any_few_flipped_bits_leave_a_table_untouched(max_distance):
    tables = [int(table) for table in clusters._bit_tables(max_distance)]
    generator = np.random.default_rng(0)
    for _ in range(300):
        flipped = _flip(0, generator.choice(64, max_distance, replace=False).tolist())
        assert any(not table & flipped for table in tables)


def test_ten_thousand_equal_hashes_cost_no_comparison(monkeypatch):
    monkeypatch.setattr(np, "bitwise_count", None)
    assert not cluster_hashes(np.full(10_000, 7, np.uint64), 4).any()


def test_near_is_passed_on_through_others():
    hashes = np.array([0b0000, 0b0011, 0b1111, 2**63 - 1], np.uint64)
    assert cluster_hashes(hashes, 2).tolist() == [0, 0, 0, 1]
    assert cluster_hashes(hashes, 1).tolist() == [0, 1, 2, 3]


COLUMN = st.integers(0, 8)


@given(st.lists(st.tuples(COLUMN, COLUMN, COLUMN), min_size=1, max_size=20))
def test_join_groups_agrees_with_comparing_all_pairs(rows):
    pairs = itertools.combinations(range(len(rows)), 2)
    linked = [(i, j) for i, j in pairs if any(map(int.__eq__, rows[i], rows[j]))]
    found = join_groups(*np.array(rows).T)
    assert _by_first_row(found) == _plain_components(len(rows), linked)
