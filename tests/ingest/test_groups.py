"""Which images look alike, what stays together, and which split it gets."""

import itertools
import unittest.mock

import cv2
import imagehash
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.ingest import groups
from image_pipeline.components.ingest.groups import (
    Links,
    Strata,
    assign_splits,
    bit_tables,
    cluster_hashes,
    find_conflicts,
    first_copies,
    follow_paths,
    hash_image,
)
from tests.drawings import draw_smooth, encode_png

pytestmark = pytest.mark.unit


def _hash(pixels, **options):
    return hash_image(prepare_image(encode_png(pixels), PrepareOptions(**options)))


def _distance(first, second):
    return (first ^ second).bit_count()


@pytest.mark.parametrize("encoding", ["png", "raw", "jpeg"])
@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_the_hash_is_imagehashs_of_the_stored_pixels(encoding, color):
    pixels = draw_smooth(3)
    expected = int(str(imagehash.phash(Image.fromarray(pixels))), 16)
    assert _distance(_hash(pixels, encoding=encoding, color=color), expected) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_what_looks_alike_is_near_and_what_does_not_is_far(seed):
    pixels = draw_smooth(seed)
    hashed = _hash(pixels)
    smaller = cv2.resize(pixels, (96, 72), interpolation=cv2.INTER_AREA)
    brighter = np.clip(pixels.astype(int) + 12, 0, 255).astype(np.uint8)
    assert _distance(hashed, _hash(pixels, jpeg_quality=40)) <= 4
    assert _distance(hashed, _hash(smaller)) <= 4
    assert _distance(hashed, _hash(brighter)) <= 4
    assert _distance(hashed, _hash(pixels[:, ::-1])) > 8
    assert _distance(hashed, _hash(draw_smooth(seed + 100))) > 8


def test_blank_images_of_any_colour_look_alike():
    blank = [_hash(np.full((40, 60, 3), level, np.uint8)) for level in (7, 128, 255)]
    assert len(set(blank)) == 1


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
    monkeypatch.setattr(groups, limit, 2)
    assert _by_first_row(cluster_hashes(hashes, 1)) == _by_first_row(expected)


@pytest.mark.parametrize("max_distance", range(1, 9))
def test_any_few_flipped_bits_leave_a_table_untouched(max_distance):
    tables = [int(table) for table in bit_tables(max_distance)]
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


@given(st.lists(st.integers(0, 5), max_size=40))
def test_first_copies_agrees_with_a_plain_loop(values):
    content = np.array([[value, 7] for value in values], np.uint64).reshape(-1, 2)
    seen = {}
    expected = [seen.setdefault(value, number) for number, value in enumerate(values)]
    assert first_copies(content).tolist() == expected


def test_all_files_of_one_content_and_several_labels_are_in_conflict():
    copies = np.array([0, 0, 2, 2, 2, 5, 5, 7])
    label = np.array([0, 1, 0, 0, 3, 2, 2, 9])
    conflicts = find_conflicts(copies, label)
    assert conflicts.tolist() == [1, 0, 4, 4, 2, -1, -1, -1]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))), st.integers(1, 9))
def test_links_agree_with_a_plain_loop(pairs, at_once):
    links, values = Links(), np.arange(21, dtype=np.uint64) << np.uint64(8)
    with unittest.mock.patch.object(groups, "_LINKS_AT_ONCE", at_once):
        for pair in pairs:
            links.add(*values[[[each] for each in pair]])
        names = links.find(values)
    assert _by_first_row(names) == _plain_components(len(values), pairs)
    # Of the values, the second byte differs only, so the smallest backwards is the smallest.
    assert (names == values[_by_first_row(names)]).all()
    assert bool(links) == any(left != right for left, right in pairs)


def test_the_name_of_what_is_joined_is_the_smallest_read_backwards():
    links, values = Links(), np.array([0x0102, 0x0201, 0x0300], np.uint64)
    links.add(values[:1], values[1:2])
    assert links.find(values).tolist() == [0x0201, 0x0201, 0x0300]
    links.add(values[1:2], values[2:])
    assert links.find(values).tolist() == [0x0300] * 3


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


def stratify_splits(hashes, labels, records, splits, ranges=1):
    """Counts units and assigns them, in so many ranges of their hashes."""
    strata, codes = Strata(1 + int(labels.max())), np.empty(len(hashes), np.int64)
    for of in np.array_split(np.argsort(hashes), ranges):
        strata.count(hashes[of], labels[of], records[of])
    for of in np.array_split(np.argsort(hashes), ranges):
        codes[of] = strata.assign(hashes[of], labels[of], records[of], splits)
    return codes


@given(UNITS, SHARES, st.integers(2, 9))
def test_ranges_change_no_split(units, splits, ranges):
    hashes, (labels, records) = _hashes([unit[0] for unit in units]), np.array(units, object).T[1:]
    units = hashes, labels.astype(int), records.astype(int), splits
    assert stratify_splits(*units).tolist() == stratify_splits(*units, ranges).tolist()


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
