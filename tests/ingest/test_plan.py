import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import UserError
from components.ingest.options import IngestOptions
from components.ingest.plan import NOWHERE, Sources, first_copies, place_sources

pytestmark = pytest.mark.unit


def _sources(count, copies=None, is_good=None, groups=None, forced=None, labels=None, seed=0):
    """Random sources; `copies` maps a source to the one whose bytes it repeats."""
    generator = np.random.default_rng(seed)
    content = generator.integers(0, 2**64, (count, 2), np.uint64)
    for copy, original in (copies or {}).items():
        content[copy] = content[original]
    return Sources(
        is_good=np.ones(count, bool) if is_good is None else np.array(is_good),
        content=content,
        record_id=generator.integers(0, 2**64, (count, 2), np.uint64),
        group=content[:, 0] if groups is None else np.array(groups, np.uint64),
        forced_split=np.full(count, NOWHERE) if forced is None else np.array(forced),
        label=np.zeros(count, np.int64) if labels is None else np.array(labels),
        stored_bytes=np.full(count, 100),
    )


def _split_of(placement, options):
    edges = np.cumsum(placement.split_shards)
    names = np.array([*options.splits, "nowhere"])
    codes = np.searchsorted(edges, placement.shard, side="right")
    return names[np.where(placement.shard == NOWHERE, len(options.splits), codes)]


@settings(max_examples=50, deadline=None)
@given(st.integers(60, 300), st.integers(1, 9), st.integers(0, 5))
def test_every_source_has_one_place_and_shards_are_balanced(count, shards, seed):
    placement = place_sources(_sources(count, seed=seed), IngestOptions(shards=shards, seed=seed))
    places = set(zip(placement.shard.tolist(), placement.position.tolist(), strict=True))
    assert len(places) == count and NOWHERE not in placement.shard
    counts = np.bincount(placement.shard)
    first = placement.split_shards[0]
    for split in (counts[:first], counts[first:]):
        assert split.max() - split.min() <= 1
    for shard, records in enumerate(counts):
        positions = np.sort(placement.position[placement.shard == shard])
        assert positions.tolist() == list(range(records))


def test_the_order_of_the_listing_does_not_matter():
    sources = _sources(100)
    shuffled = np.random.default_rng(1).permutation(100)
    moved = Sources(**{name: column[shuffled] for name, column in vars(sources).items()})
    first, second = (place_sources(each, IngestOptions(shards=3)) for each in (sources, moved))
    assert (second.shard == first.shard[shuffled]).all()
    assert (second.position == first.position[shuffled]).all()


def test_the_seed_changes_the_order_and_never_the_split():
    sources, options = _sources(200), [IngestOptions(seed=seed) for seed in (0, 1)]
    first, second = (place_sources(sources, each) for each in options)
    assert (first.position != second.position).any()
    assert (_split_of(first, options[0]) == _split_of(second, options[1])).all()


def test_quarantined_sources_go_nowhere():
    is_good = np.arange(100) % 2 == 0
    placement = place_sources(_sources(100, is_good=is_good), IngestOptions())
    assert ((placement.shard != NOWHERE) == is_good).all()


def test_keep_first_excludes_the_later_copies():
    placement = place_sources(_sources(100, copies={50: 3, 99: 3}), IngestOptions())
    assert np.flatnonzero(placement.shard == NOWHERE).tolist() == [50, 99]
    assert placement.original[[3, 50, 99]].tolist() == [NOWHERE, 3, 3]


def test_keep_all_keeps_copies_together_even_against_folders_and_groups():
    options = IngestOptions(duplicates="keep_all")
    forced = np.full(100, NOWHERE)
    forced[3], forced[50] = 1, 0
    sources = _sources(100, copies={50: 3}, forced=forced)
    placement = place_sources(sources, options)
    assert (placement.shard != NOWHERE).all()
    assert _split_of(placement, options)[[3, 50]].tolist() == ["eval", "eval"]


def test_duplicates_can_be_an_error():
    with pytest.raises(UserError, match=r"1 files repeat .* ingest.duplicates=error; remove"):
        place_sources(_sources(100, copies={50: 3}), IngestOptions(duplicates="error"))


def test_a_group_shares_a_split():
    groups = np.random.default_rng(2).integers(0, 2**64, 20, np.uint64)[np.arange(200) % 20]
    options = IngestOptions(splits={"train": 0.5, "eval": 0.5})
    splits = _split_of(place_sources(_sources(200, groups=groups), options), options)
    for group in set(groups.tolist()):
        assert len(set(splits[groups == group])) == 1


def test_the_path_can_force_the_split():
    forced = np.where(np.arange(100) < 10, 1, 0)
    options = IngestOptions()
    splits = _split_of(place_sources(_sources(100, forced=forced), options), options)
    assert splits.tolist() == ["eval"] * 10 + ["train"] * 90


def test_an_empty_split_is_the_users_error():
    with pytest.raises(UserError, match=r"'eval' would be empty: 2 usable images.*ingest.splits"):
        place_sources(_sources(2, forced=[0, 0]), IngestOptions())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_first_copies_agrees_with_a_plain_loop(pairs):
    content = np.array([[value, 7] for value, _ in pairs], np.uint64)
    is_good = np.array([good for _, good in pairs])
    seen, expected = {}, []
    for number, (value, good) in enumerate(pairs):
        expected.append(seen.setdefault(value, number) if good else number)
    assert first_copies(content, is_good).tolist() == expected
