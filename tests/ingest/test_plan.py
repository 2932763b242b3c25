import tempfile
import types
import unittest.mock

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import ranges
from image_pipeline.components.ingest.groups import assign_splits
from image_pipeline.components.ingest.plan import (
    NOWHERE,
    PLACE,
    SOURCE,
    EmptySplit,
    Sources,
    count_shards,
    order_keys,
    place_sources,
    read_places,
    shard_edges,
)
from image_pipeline.components.ingest.ranges import Ranges, select
from image_pipeline.components.meaning.options import IngestOptions
from tests.ingest.plan_by_loops import place_by_loops

pytestmark = pytest.mark.unit


def _sources(
    count, copies=None, is_good=None, groups=None, forced=None, labels=None, looks=None, seed=0
):
    """Random sources; `copies` maps a source to the one whose bytes it repeats."""
    generator = np.random.default_rng(seed)
    content = generator.integers(0, 2**64, (count, 2), np.uint64)
    for copy, original in (copies or {}).items():
        content[copy] = content[original]
    labels = np.zeros(count, np.int64) if labels is None else np.array(labels)
    return types.SimpleNamespace(
        is_good=np.ones(count, bool) if is_good is None else np.array(is_good),
        content=content,
        record_id=generator.integers(0, 2**64, (count, 2), np.uint64),
        group=content[:, 0] if groups is None else np.array(groups, np.uint64),
        forced_split=np.full(count, NOWHERE) if forced is None else np.array(forced),
        label=labels.copy(),
        label_hash=labels.copy(),
        stratum=labels.copy(),
        stored_bytes=np.full(count, 100),
        perceptual_hash=np.zeros(count, np.uint64) if looks is None else np.array(looks, np.uint64),
    )


def _usable(sources):
    """The rows of those that are usable."""
    numbers = np.flatnonzero(sources.is_good)
    columns = {name: getattr(sources, name)[numbers] for name in SOURCE.names[1:]}
    return select(numbers, SOURCE, number=numbers, **columns)


def _place(sources, options, range_rows=10**6):
    """The places of all sources; of their sets that look alike, each member's number and split."""
    count, rows = len(sources.is_good), _usable(sources)
    codes = 1 + int(max(sources.label.max(), sources.stratum.max()))
    with (
        tempfile.TemporaryDirectory() as folder,
        unittest.mock.patch.object(ranges, "RANGE_ROWS", range_rows),
    ):
        usable = Ranges(folder, SOURCE, count)
        usable.add_by_hash(rows, rows["content"][:, 0])
        read = Sources(count, usable, [*map(str, range(codes))], codes)
        placement = place_sources(read, Ranges(folder, PLACE, count), options, folder)
        places = read_places(placement.places, 0, count)
        alike = np.concatenate(list(placement.alike))
    of_set = {number: alike[alike["cluster"] == number] for number in np.unique(alike["cluster"])}
    return types.SimpleNamespace(
        **{name: places[name] for name in PLACE.names},
        split_shards=placement.split_shards,
        counts=placement.counts,
        alike=[each[["number", "split"]].tolist() for each in of_set.values()],
        rows=places[[*PLACE.names[1:]]].tolist(),
    )


def _split_of(placement, options):
    edges = np.cumsum(placement.split_shards)
    names = np.array([*options.splits, "nowhere"])
    codes = np.searchsorted(edges, placement.shard, side="right")
    return names[np.where(placement.shard == NOWHERE, len(options.splits), codes)]


@given(st.integers(60, 300), st.integers(1, 9), st.integers(0, 5))
def test_every_source_has_one_place_and_shards_are_balanced(count, shards, seed):
    placement = _place(_sources(count, seed=seed), IngestOptions(shards=shards, seed=seed))
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
    moved = types.SimpleNamespace(**{name: each[shuffled] for name, each in vars(sources).items()})
    first, second = (_place(each, IngestOptions(shards=3)) for each in (sources, moved))
    assert (second.shard == first.shard[shuffled]).all()
    assert (second.position == first.position[shuffled]).all()


def test_the_seed_changes_the_order_and_never_the_split():
    sources, options = _sources(200), [IngestOptions(seed=seed) for seed in (0, 1)]
    first, second = (_place(sources, each) for each in options)
    assert (first.position != second.position).any()
    assert (_split_of(first, options[0]) == _split_of(second, options[1])).all()


def test_quarantined_sources_go_nowhere():
    is_good = np.arange(100) % 2 == 0
    placement = _place(_sources(100, is_good=is_good), IngestOptions())
    assert ((placement.shard != NOWHERE) == is_good).all()


def test_keep_first_excludes_the_later_copies():
    placement = _place(_sources(100, copies={50: 3, 99: 3}), IngestOptions())
    assert np.flatnonzero(placement.shard == NOWHERE).tolist() == [50, 99]
    assert placement.copies[[3, 50, 99]].tolist() == [3, 3, 3] and placement.counts.excluded == 2


def test_keep_all_keeps_copies_together_even_against_folders_and_groups():
    options = IngestOptions(duplicates="keep_all")
    forced = np.full(100, NOWHERE)
    forced[3], forced[50] = 1, 0
    sources = _sources(100, copies={50: 3}, forced=forced)
    placement = _place(sources, options)
    assert (placement.shard != NOWHERE).all()
    assert _split_of(placement, options)[[3, 50]].tolist() == ["eval", "eval"]


def test_copies_stay_in_the_splits_that_are_named_for_them():
    options = IngestOptions(duplicates="keep_as_given")
    forced = np.full(100, NOWHERE)
    forced[3], forced[50] = 1, 0
    sources = _sources(100, copies={50: 3, 99: 3}, forced=forced)
    placement = _place(sources, options)
    assert (placement.shard != NOWHERE).all()
    # What names none goes where the first copy goes.
    assert _split_of(placement, options)[[3, 50, 99]].tolist() == ["eval", "train", "eval"]


def test_duplicates_can_be_an_error():
    with pytest.raises(UserError, match=r"1 files repeat .* ingest.duplicates=error; remove"):
        _place(_sources(100, copies={50: 3}), IngestOptions(duplicates="error"))


def test_a_group_shares_a_split():
    groups = np.random.default_rng(2).integers(0, 2**64, 20, np.uint64)[np.arange(200) % 20]
    options = IngestOptions(splits={"train": 0.5, "eval": 0.5})
    splits = _split_of(_place(_sources(200, groups=groups), options), options)
    for group in set(groups.tolist()):
        assert len(set(splits[groups == group])) == 1


def test_the_path_can_force_the_split():
    forced = np.where(np.arange(100) < 10, 1, 0)
    options = IngestOptions()
    splits = _split_of(_place(_sources(100, forced=forced), options), options)
    assert splits.tolist() == ["eval"] * 10 + ["train"] * 90


def test_an_empty_split_is_the_users_error():
    message = r"'eval' would be empty: 2 usable images, shares .*ingest.splits, or remove it there"
    with pytest.raises(EmptySplit, match=message) as caught:
        _place(_sources(2), IngestOptions(splits={"train": 1 - 1e-9, "eval": 1e-9}))
    assert caught.value.copied == ()


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        (
            {"label_pattern": None},
            r"or split all of them again with ingest.columns={split: null}\.$",
        ),
        (
            {"split_pattern": "(?P<split>a)/", "label_pattern": "[^/]+/(?P<label>x)"},
            r"""again with --set 'ingest.label_pattern="\[\^/\]\+/\(\?P<label>x\)"'\.$""",
        ),
        ({"split_pattern": "(?P<split>a)/", "label_pattern": None}, "add images of this one.$"),
    ],
)
def test_images_that_are_all_given_with_another_split_are_told_of(options, way_out):
    message = r"'eval' would be empty: 2 usable images, all given with another split; .*" + way_out
    with pytest.raises(EmptySplit, match=message):
        _place(_sources(2, forced=[0, 0]), IngestOptions.model_validate(options))


def test_copies_that_empty_a_split_are_named():
    sources = _sources(4, forced=[0, 0, 1, 1])
    sources.content[2:] = sources.content[:2]
    message = r"'eval' would be empty: 4 usable images \(2 of them copies"
    with pytest.raises(EmptySplit, match=message) as caught:
        _place(sources, IngestOptions())
    assert caught.value.copied == ("eval",)


def _related(count, seed):
    """Sources of which some are copies, some share a group, some look alike, and some are bad."""
    generator = np.random.default_rng(seed)
    others = generator.integers(0, count, (3, count))
    others = np.where(generator.random((3, count)) < 0.15, others, np.arange(count))
    is_good = generator.random(count) < 0.9
    sources = _sources(count, is_good=is_good, groups=np.zeros(count), seed=seed)
    sources.content[:] = sources.content[others[0]]
    sources.group[:] = sources.content[others[1], 0]
    sources.perceptual_hash[:] = sources.content[others[2], 1]
    return sources


HALVES = {"train": 0.5, "eval": 0.5}
RELATED = st.builds(_related, st.integers(100, 300), st.integers(0, 50))


@given(RELATED, st.booleans(), st.sampled_from(["keep_first", "keep_all"]))
def test_nothing_related_is_parted(sources, stratify, duplicates):
    options = IngestOptions(
        near_duplicates=4, stratify=stratify, duplicates=duplicates, splits=HALVES
    )
    splits = _split_of(_place(sources, options), options)
    for column in (sources.content[:, 0], sources.group, sources.perceptual_hash):
        for value in np.unique(column[sources.is_good]):
            assert len({*splits[sources.is_good & (column == value)]} - {"nowhere"}) <= 1


@given(st.integers(60, 200), st.integers(0, 50), st.sampled_from(["keep_first", "keep_all"]))
def test_without_the_options_only_content_and_paths_decide(count, seed, duplicates):
    generator = np.random.default_rng(seed)
    copies = {n: int(generator.integers(n)) for n in range(1, count) if generator.random() < 0.2}
    forced = generator.integers(NOWHERE, 2, count)
    looks = np.zeros(count)
    sources = _sources(count, copies, forced=forced, looks=looks, seed=seed)
    options = IngestOptions(duplicates=duplicates)
    placement = _place(sources, options)
    by_hash = assign_splits(sources.content[:, 0], options.splits)
    expected = np.where(forced == NOWHERE, by_hash, forced)[placement.copies]
    written = placement.shard != NOWHERE
    assert written.all() == (duplicates == "keep_all" or not copies)
    names = np.array(list(options.splits))[expected]
    assert (_split_of(placement, options)[written] == names[written]).all()
    assert placement.alike == []


def test_groups_that_share_an_image_share_a_split():
    groups = np.random.default_rng(2).integers(0, 2**64, 20, np.uint64)[np.arange(200) // 10]
    first, second = (int(np.flatnonzero((groups < 2**63) == low)[0]) for low in (True, False))
    options = IngestOptions(splits=HALVES)
    before, after = (
        _split_of(_place(_sources(200, copies, groups=groups), options), options)
        for copies in ({}, {max(first, second): min(first, second)})
    )
    assert before[first] != before[second]
    joined = np.isin(groups, groups[[first, second]])
    assert len({*after[joined]} - {"nowhere"}) == 1
    assert (after[~joined] == before[~joined]).all()


def test_looking_alike_joins_only_where_asked():
    looks = np.random.default_rng(3).integers(0, 2**64, 100, np.uint64)[np.arange(200) // 2]
    looks[1::2] ^= np.uint64(0b1011)  # three bits
    parted = []
    for near_duplicates in (None, 2, 3):
        options = IngestOptions(splits=HALVES, near_duplicates=near_duplicates)
        splits = _split_of(_place(_sources(200, looks=looks), options), options)
        parted.append(int((splits[::2] != splits[1::2]).sum()))
    assert parted[0] == parted[1] > 20 and parted[2] == 0


def test_units_do_not_flock_to_the_first_split():
    looks = np.random.default_rng(4).integers(0, 2**64, 500, np.uint64)[np.arange(5000) // 10]
    options = IngestOptions(splits=HALVES, near_duplicates=0)
    splits = _split_of(_place(_sources(5000, looks=looks), options), options)
    assert (splits == "train").mean() == pytest.approx(0.5, abs=0.05)


def test_another_image_moves_only_its_own_unit():
    looks = np.random.default_rng(5).integers(0, 2**64, 400, np.uint64)
    looks[1:200:2] = looks[0:200:2]
    options = IngestOptions(splits=HALVES, near_duplicates=4)
    hashes = np.random.default_rng(6).integers(0, 2**64, (40, 2), np.uint64)
    sources, moved = _sources(400, looks=looks), 0
    before = _split_of(_place(sources, options), options)
    for added in range(40):
        more = _sources(401, looks=[*looks, looks[added]])
        more.content[:400], more.content[400] = sources.content, hashes[added]
        more.group[:] = more.content[:, 0]
        after = _split_of(_place(more, options), options)
        own = looks == looks[added]
        assert (after[:400][~own] == before[~own]).all()
        moved += (after[:400][own] != before[own]).any()
    assert 0 < moved < 14  # Its hash decides once in 3 times; half of these, another split.


def test_what_belongs_to_a_path_with_a_split_follows_it():
    forced = np.full(100, NOWHERE)
    forced[:20:2] = 1
    looks = np.random.default_rng(6).integers(0, 2**64, 100, np.uint64)
    looks[1:20:2] = looks[:20:2]
    options = IngestOptions(near_duplicates=4)
    splits = _split_of(_place(_sources(100, forced=forced, looks=looks), options), options)
    assert splits[:20].tolist() == ["eval"] * 20
    free = _split_of(_place(_sources(100, looks=looks), options), options)
    assert (splits[20:] == free[20:]).all()


def test_stratify_gives_every_class_its_share_beside_what_paths_decide():
    labels, forced = np.arange(300) % 3, np.full(300, NOWHERE)
    forced[:30] = 1
    options = IngestOptions(splits={"train": 0.8, "eval": 0.2}, stratify=True)
    sources = _sources(300, forced=forced, labels=labels)
    splits = _split_of(_place(sources, options), options)
    assert (splits[:30] == "eval").all()
    for label in range(3):
        own = splits[30:][labels[30:] == label]
        assert (own == "eval").sum() == 18
    default = IngestOptions(splits={"train": 0.8, "eval": 0.2})
    assert (_split_of(_place(sources, default), default) != splits).any()


def test_stratify_counts_records_and_not_excluded_copies():
    copies = {number: 0 for number in range(1, 50)}
    options = IngestOptions(splits={"train": 0.8, "eval": 0.2}, stratify=True)
    splits = _split_of(_place(_sources(149, copies), options), options)
    assert ((splits == "train").sum(), (splits == "eval").sum()) == (80, 20)


def test_conflicting_labels_are_written_nowhere_unless_asked():
    labels = [0] * 100
    labels[7] = 1
    sources = _sources(100, {7: 3, 8: 3, 9: 4}, labels=labels)
    placement = _place(sources, IngestOptions())
    assert np.flatnonzero(placement.shard == NOWHERE).tolist() == [3, 7, 8, 9]
    assert np.flatnonzero(placement.conflicts != NOWHERE).tolist() == [3, 7, 8]
    assert np.flatnonzero(placement.copies != placement.number).tolist() == [9]
    kept = _place(sources, IngestOptions(conflicting_labels="keep"))
    assert np.flatnonzero(kept.shard == NOWHERE).tolist() == [7, 8, 9]
    with pytest.raises(UserError, match=r"3 files have the bytes .*conflicting_labels=error"):
        _place(sources, IngestOptions(conflicting_labels="error"))


def test_other_masks_conflict_though_the_labels_agree():
    sources = _sources(100, {7: 3, 8: 3, 9: 4})
    sources.label_hash[8] = 1
    placement = _place(sources, IngestOptions())
    assert np.flatnonzero(placement.conflicts != NOWHERE).tolist() == [3, 7, 8]
    assert placement.conflicts[[3, 7, 8]].tolist() == [8, 8, 3]
    assert np.flatnonzero(placement.copies != placement.number).tolist() == [9]


def _draw(seed):
    """Sources of all that may be of them, and options; most are related to others."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(20, 60))
    others = generator.integers(0, count, (3, count))
    related = generator.random((3, count)) < generator.random((3, 1)) / 2
    first, group, look = np.where(related, others, np.arange(count))
    few = generator.integers(0, 3, (3, count))
    is_named = generator.random(count) < generator.choice([0, 0.2, 0.9])
    forced = np.where(is_named, few[0] - 1, NOWHERE)
    is_good = generator.random(count) < 0.9
    sources = _sources(count, is_good=is_good, forced=forced, labels=few[1], seed=seed)
    sources.content[:] = sources.content[first]
    sources.group = sources.content[group if generator.random() < 0.5 else np.arange(count), 0]
    flipped = np.uint64(1) << generator.integers(0, 64, count, np.uint64)
    sources.perceptual_hash[:] = sources.content[look, 1] ^ flipped
    sources.stored_bytes[:] = generator.integers(1, 1000, count)
    if generator.random() < 0.5:
        sources.label_hash, sources.stratum = sources.content[:, 1].astype(np.int64), few[2]
    options = IngestOptions(
        duplicates=str(generator.choice(["keep_first", "keep_all", "keep_as_given"])),
        conflicting_labels=str(generator.choice(["quarantine", "keep"])),
        stratify=bool(generator.random() < 0.5),
        near_duplicates=[None, 0, 2, 4][generator.integers(4)],
        splits=[HALVES, {"a": 0.2, "train": 0.5, "c": 0.3}][generator.integers(2)],
        shards=[None, 3][generator.integers(2)],
        shard_bytes=5000,
        seed=seed,
    )
    return sources, options


@given(st.integers(0, 10_000), st.sampled_from([1, 3, 20]))
def test_any_ranges_give_the_plan_of_plain_loops(seed, range_rows):
    sources, options = _draw(seed)
    columns = {name: getattr(sources, name) for name in SOURCE.names[1:]}
    rows = [
        types.SimpleNamespace(**{name: each[n] for name, each in columns.items()}) if good else None
        for n, good in enumerate(sources.is_good)
    ]
    try:
        placement = _place(sources, options, range_rows)
    except EmptySplit:
        hypothesis.reject()
    places, alike = place_by_loops(rows, options)
    assert placement.rows == places
    assert placement.alike == (alike if options.near_duplicates is not None else [])
    assert placement.counts.alike == len(placement.alike)


@given(st.integers(0, 10_000))
def test_the_number_of_ranges_changes_no_count(seed):
    sources, options = _draw(seed)
    try:
        one, many = (vars(_place(sources, options, rows).counts) for rows in (10**6, 7))
    except EmptySplit:
        hypothesis.reject()
    for name, count in one.items():
        assert np.array_equal(count, many[name]), name


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
