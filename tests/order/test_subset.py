import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.order.subset import eval_subset, select_rows

pytestmark = pytest.mark.unit


def make_table(count, labels=("a", "b", "c"), groups=None):
    ids = [hashlib.sha256(str(number).encode()).hexdigest()[:32] for number in range(count)]
    return pa.table(
        {
            "record_id": pa.array(ids, pa.string()),
            "label": pa.array([labels[number % len(labels)] for number in range(count)]),
            "group": pa.array([groups and groups(number) for number in range(count)], pa.string()),
            "height": pa.array(range(count), pa.int32()),
        }
    )


def ids_of(table, rows):
    return set(table["record_id"].take(rows).to_pylist())


BIG = make_table(20_000)


def test_all_rows_without_criteria():
    assert select_rows(make_table(5)).tolist() == [0, 1, 2, 3, 4]


def test_criteria_are_joined():
    both = select_rows(BIG, where="height < 10000", fraction=0.5)
    expected = np.intersect1d(
        select_rows(BIG, where="height < 10000"), select_rows(BIG, fraction=0.5)
    )
    assert both.tolist() == expected.tolist()
    assert both.dtype == np.int64
    assert select_rows(BIG, where="height < 0").tolist() == []


def test_a_wrong_condition_is_the_persons_error():
    with pytest.raises(UserError, match="did you mean height"):
        select_rows(BIG, where="hight < 3")


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.integers(0, 10))
def test_a_smaller_fraction_is_part_of_a_larger_one(first, second, seed):
    small, large = sorted([first, second])
    rows = [set(select_rows(BIG, fraction=each, seed=seed).tolist()) for each in (small, large)]
    assert rows[0] <= rows[1]
    # Five standard deviations of a binomial count, at most 0.5 / sqrt(20,000) of the records each.
    assert len(rows[0]) / 20_000 == pytest.approx(small, abs=0.018)


@given(st.integers(1, 200), st.integers(0, 200), st.floats(0.01, 1), st.integers(1, 6))
def test_adding_data_moves_nothing(count, more, fraction, folds):
    before, after = make_table(count), make_table(count + more)
    kept = select_rows(after, fraction=fraction)
    assert select_rows(before, fraction=fraction).tolist() == kept[kept < count].tolist()
    for fold in range(folds):
        kept = select_rows(after, fold=(fold, folds))
        assert select_rows(before, fold=(fold, folds)).tolist() == kept[kept < count].tolist()


def test_the_order_of_the_index_does_not_matter():
    shuffled = BIG.take(np.random.default_rng(0).permutation(len(BIG)))
    for criteria in ({"fraction": 0.3}, {"fold": (1, 3)}):
        first, second = (ids_of(table, select_rows(table, **criteria)) for table in (BIG, shuffled))
        assert first == second


@given(st.integers(1, 12), st.integers(0, 10))
def test_folds_are_disjoint_and_everything(folds, seed):
    table = BIG.slice(0, 5000)
    rows = [select_rows(table, fold=(fold, folds), seed=seed) for fold in range(folds)]
    assert np.sort(np.concatenate(rows)).tolist() == list(range(5000))
    assert [len(fold) / 5000 for fold in rows] == pytest.approx([1 / folds] * folds, abs=0.036)


def test_a_group_is_in_one_fold():
    groups = make_table(3000, groups=lambda number: f"patient {number % 100}" if number % 2 else "")
    for fold in range(5):
        rows = select_rows(groups, fold=(fold, 5))
        grouped = set(rows[rows % 2 == 1] % 100)
        assert len(rows[rows % 2 == 1]) == 30 * len(grouped)
    alone = groups.drop_columns("group")
    sizes = [len(select_rows(alone, fold=(fold, 5))) for fold in range(5)]
    assert sum(sizes) == 3000


def test_fractions_and_folds_are_unrelated():
    rows = select_rows(BIG, fraction=0.2, fold=(0, 5))
    assert len(rows) / len(BIG) == pytest.approx(0.04, abs=0.007)


def test_seeds_matter():
    for criteria in ({"fraction": 0.5}, {"fold": (0, 2)}):
        first, second = (select_rows(BIG, seed=seed, **criteria) for seed in (0, 1))
        assert len(np.intersect1d(first, second)) / len(BIG) == pytest.approx(0.25, abs=0.016)
    assert eval_subset(BIG, 50, seed=0).tolist() != eval_subset(BIG, 50, seed=1).tolist()


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ({"fraction": 0}, r"fraction must be in \(0, 1\], got 0; set select.fraction"),
        ({"fraction": 1.5}, "got 1.5"),
        ({"fold": (3, 3)}, r"fold must be \[k, n\] with 0 <= k < n, got \[3, 3\]"),
        ({"fold": (-1, 3)}, r"got \[-1, 3\]"),
        ({"fold": (0, 0)}, r"got \[0, 0\]"),
    ],
)
def test_what_is_out_of_range_is_refused(criteria, message):
    with pytest.raises(ValueError, match=message):
        select_rows(BIG, **criteria)


@given(st.integers(1, 300), st.integers(1, 320), st.booleans(), st.integers(0, 5))
def test_an_eval_subset_has_the_asked_size_and_shares(count, n, stratified, seed):
    table = make_table(count, labels=("a", "a", "b", "c", "c", "c", "d"))
    rows = eval_subset(table, n, seed, stratified)
    assert len(rows) == min(n, count)
    assert (np.diff(rows) > 0).all()
    if stratified:
        labels = np.array(table["label"].to_pylist())
        for label in np.unique(labels):
            share = (labels == label).sum() * len(rows) / count
            assert abs((labels[rows] == label).sum() - share) < 1 + 1e-9


@pytest.mark.parametrize("stratified", [False, True])
def test_an_eval_subset_takes_the_same_records_in_any_order_of_the_index(stratified):
    table = make_table(1000, labels=("a", "b", "c", "d"))
    shuffled = table.take(np.random.default_rng(0).permutation(1000))
    # Each class is due 22.5 of the 90: which ones are rounded up depends on hashes, too.
    first, second = (
        ids_of(each, eval_subset(each, 90, 3, stratified)) for each in (table, shuffled)
    )
    assert first == second


def test_a_smaller_eval_subset_is_part_of_a_larger_one():
    assert set(eval_subset(BIG, 100, stratified=False)) <= set(
        eval_subset(BIG, 1000, stratified=False)
    )
    assert set(eval_subset(BIG, 99)) <= set(eval_subset(BIG, 999))


def test_whole_shares_are_exact():
    table = make_table(100, labels=("a", "b", "b", "b"))
    labels = np.array(table["label"].to_pylist())[eval_subset(table, 20)]
    assert (labels == "a").sum() == 5
    # Unstratified shares are those of chance.
    counts = {
        (np.array(table["label"].to_pylist())[eval_subset(table, 20, seed, False)] == "a").sum()
        for seed in range(20)
    }
    assert len(counts) > 2


def test_an_eval_subset_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"n must be positive, got 0; set eval_subset\.records"):
        eval_subset(BIG, 0)
