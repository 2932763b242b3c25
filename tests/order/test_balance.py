import collections
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.order.balance import (
    BalancedOrder,
    class_weights,
    draw_part,
    round_shares,
    share_draws,
)

pytestmark = pytest.mark.unit

COUNTS = st.lists(st.integers(1, 60), min_size=1, max_size=8)


def labels_of(counts):
    return np.repeat(np.arange(len(counts)), counts)


def balanced(counts, weights="uniform", seed=0, max_oversampling=math.inf, length=None):
    labels = labels_of(counts)
    return BalancedOrder(labels, range(len(labels)), weights, seed, max_oversampling, length)


def epoch_of(drawing, epoch=0):
    return drawing.draw(epoch, np.arange(drawing.length))


@given(COUNTS, st.data())
def test_every_class_has_its_share_to_within_one_draw(counts, data):
    weights = data.draw(st.lists(st.floats(0.01, 100), min_size=len(counts), max_size=len(counts)))
    length = data.draw(st.integers(1, 500))
    drawing = balanced(counts, dict(enumerate(weights)), length=length)
    drawn = np.bincount(labels_of(counts)[epoch_of(drawing).rows], minlength=len(counts))
    shares = np.array(weights) / sum(weights)
    assert drawn.sum() == length
    assert (np.abs(drawn - length * shares) < 1 + 1e-6).all()
    assert drawing.shares() == dict(enumerate(drawn / length))


def test_targets_are_reached_within_one_percent():
    drawing = balanced([10, 200, 4000, 30_000])
    drawn = np.bincount(labels_of([10, 200, 4000, 30_000])[epoch_of(drawing).rows])
    assert drawn / drawing.length == pytest.approx([0.25] * 4, abs=0.0001)


@given(COUNTS, st.integers(0, 10**6), st.integers(1, 400), st.integers(1, 12))
def test_rows_of_a_class_are_drawn_equally_often(counts, seed, length, epochs):
    drawing = balanced(counts, seed=seed, length=length)
    drawn = np.zeros(sum(counts), np.int64)
    for number in range(epochs):
        once = np.bincount(epoch_of(drawing, number).rows, minlength=sum(counts))
        drawn += once
        for times in (once, drawn):  # In one epoch, and in all so far.
            for label in range(len(counts)):
                of_class = times[labels_of(counts) == label]
                assert of_class.max() - of_class.min() <= 1


def test_an_undersampled_classes_rows_come_in_changing_company():
    drawing = balanced([40, 9], {0: 1, 1: 1}, length=18)  # nine a class
    together = np.zeros((40, 40))
    for epoch in range(2000):
        rows = epoch_of(drawing, epoch).rows
        rows = rows[rows < 40]
        together[np.ix_(rows, rows)] += 1
    pairs = together[np.triu_indices(40, 1)] / 2000
    # Nine of forty, drawn at random: 0.046 on average, and five standard deviations of 0.0047.
    assert pairs.mean() == pytest.approx(9 * 8 / (40 * 39))
    assert np.abs(pairs - pairs.mean()).max() < 5 * 0.0047


@given(COUNTS, st.integers(1, 400))
def test_copies_number_the_draws_of_a_row(counts, length):
    draws = epoch_of(balanced(counts, length=length))
    copies = collections.defaultdict(list)
    for row, copy in zip(draws.rows.tolist(), draws.copies.tolist(), strict=True):
        copies[row].append(copy)
    assert all(sorted(own) == list(range(len(own))) for own in copies.values())


@given(COUNTS, st.integers(0, 5))
def test_a_draw_hangs_on_nothing_but_its_position(counts, epoch):
    drawing = balanced(counts)
    positions = np.random.default_rng(0).permutation(drawing.length)
    assert (drawing.draw(epoch, positions).rows == epoch_of(drawing, epoch).rows[positions]).all()


def test_what_labels_and_rows_are_held_in_changes_no_draw():
    numbers = np.random.default_rng(0).integers(0, 3, 500)
    expected = epoch_of(BalancedOrder(numbers, range(500), "uniform", 0, math.inf)).rows
    for classes in ([-300, -1, 5], [-1, 0, 2**31], [0, 7, 70_000], [1, 2, 255]):
        labels = np.array(classes)[numbers]
        for first in (0, 100, 2**32 - 250, 2**40):
            for rows in (range(first, first + 500), np.arange(first, first + 500)):
                drawn = epoch_of(BalancedOrder(labels, rows, "uniform", 0, math.inf)).rows
                assert drawn.dtype == np.int64
                np.testing.assert_array_equal(drawn, expected + first)


def test_classes_are_interleaved_at_random():
    drawing = balanced([100, 900], length=10_000)
    labels = labels_of([100, 900])[epoch_of(drawing).rows]
    changes = (labels[1:] != labels[:-1]).mean()
    assert changes == pytest.approx(0.5, abs=0.025)  # Five standard deviations.
    assert epoch_of(drawing).rows.tolist() != epoch_of(drawing, 1).rows.tolist()
    other = balanced([100, 900], length=10_000, seed=1)
    assert epoch_of(drawing).rows.tolist() != epoch_of(other).rows.tolist()


@given(COUNTS, st.floats(1, 5), st.data())
def test_a_cap_holds_and_the_rest_is_shared(counts, cap, data):
    length = data.draw(st.integers(1, sum(counts)))
    drawing = balanced(counts, max_oversampling=cap, length=length)
    drawn = np.array(counts) * list(drawing.oversampling().values())
    assert round(drawn.sum()) == length
    is_capped = drawn >= np.floor(np.round(cap * np.array(counts), 6)) - 1e-6
    assert max(drawing.oversampling().values()) <= cap + 1e-9
    if (~is_capped).any():  # These share equally, and have no less than a capped class.
        assert np.ptp(drawn[~is_capped]) <= 1 + 1e-6
        assert drawn[is_capped].max(initial=0) <= drawn[~is_capped].min() + 1 + 1e-6


def test_a_capped_class_leaves_the_rest_to_the_others_by_weight():
    shares = share_draws(np.array([10, 1000, 1000]), np.array([2.0, 1.0, 3.0]), 820, 2.0)
    assert shares.tolist() == [20, 200, 600]


def test_what_one_capped_class_leaves_may_fill_the_next():
    shares = share_draws(np.array([10, 30, 1000]), np.ones(3), 160, 2.0)
    assert shares.tolist() == [20, 60, 80]


def test_shares_report_what_the_cap_leaves():
    drawing = balanced([10, 90], max_oversampling=3)
    assert drawing.shares() == {0: 0.3, 1: 0.7}
    assert drawing.oversampling() == {0: 3.0, 1: pytest.approx(7 / 9)}


def test_classes_without_weight_are_left_out_and_do_not_lengthen_the_epoch():
    drawing = balanced([10, 20, 70], {0: 1, 1: 3})
    assert drawing.length == 30
    assert drawing.shares() == {0: pytest.approx(8 / 30), 1: pytest.approx(22 / 30), 2: 0}
    assert epoch_of(drawing).rows.max() < 30


def test_data_sets_are_mixed_like_classes():
    rows = np.array([5, 6, 7, 100, 101, 102, 103, 104, 105])
    drawing = BalancedOrder(rows >= 100, rows, {0: 2, 1: 1}, 0, math.inf, length=9)
    drawn = collections.Counter(epoch_of(drawing).rows.tolist())
    assert [drawn[row] for row in (5, 6, 7)] == [2, 2, 2]
    assert sum(drawn[row] for row in range(100, 106)) == 3


@given(COUNTS, st.integers(1, 1000))
def test_shares_are_rounded_up_or_down(counts, total):
    due = np.array(counts) * (total / sum(counts))
    rounded = round_shares(due, total)
    assume(len(counts) > 0)
    assert rounded.sum() == total
    assert (np.abs(rounded - due) < 1 + 1e-6).all()


def test_the_largest_remainder_is_rounded_up():
    assert round_shares(np.array([1.2, 2.5, 3.3]), 7).tolist() == [1, 3, 3]
    assert round_shares(np.array([0.5, 0.5]), 1).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({0: 1, 9: 1}, "class 9 has a weight, but none of the selected rows; take it out"),
        ({0: 1, 1: -1}, "not negative and not all 0, got {0: 1, 1: -1}"),
        ({0: 0, 1: 0}, "not all 0"),
        ({0: math.inf}, "must be finite"),
        ("even", "'uniform' or a weight for each class, got 'even'"),
    ],
)
def test_wrong_weights_are_refused(weights, message):
    with pytest.raises(UserError, match=message):
        class_weights(np.array([0, 1]), weights)


def test_a_cap_that_leaves_draws_untaken_is_refused():
    with pytest.raises(
        UserError, match=r"max_oversampling=1\.5 lets .* 15 draws, but an epoch has 100; raise"
    ):
        balanced([10, 90], {0: 1}, max_oversampling=1.5, length=100)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="there must be one label per row, got 2 for 3 rows"):
        BalancedOrder(np.zeros(2, int), range(3), "uniform", 0, 1)
    with pytest.raises(ValueError, match="rows must not be empty"):
        BalancedOrder(np.zeros(0, int), range(0), "uniform", 0, 1)


@st.composite
def parts(draw):
    count = draw(st.integers(2, 60))
    return count, draw(st.integers(1, count - 1))


@given(parts(), st.integers(0, 10**6))
def test_every_row_has_its_turn_before_any_comes_again(part_of, seed):
    count, part = part_of
    drawn = np.zeros(count, np.int64)
    for epoch in range(2 * count):
        rows = draw_part(count, part, epoch, (seed,))
        assert len(set(rows.tolist())) == part and rows.dtype == np.int64
        drawn[rows] += 1
        assert np.ptp(drawn) <= 1
    assert (drawn == 2 * part).all()  # whole laps


@pytest.mark.parametrize(
    ("count", "part"), [(12, 3), (12, 5), (12, 6), (12, 7), (13, 11), (400, 1)]
)
def test_any_two_rows_meet_as_often_as_chance_has_it(count, part):
    epochs = 3000
    together = np.zeros((count, count))
    for epoch in range(epochs):
        rows = draw_part(count, part, epoch, (1,))
        together[np.ix_(rows, rows)] += 1
    due = part * (part - 1) / (count * (count - 1))
    pairs = together[np.triu_indices(count, 1)] / epochs
    spread = np.sqrt(due * (1 - due) / epochs)
    assert np.abs(pairs - due).max() <= 5 * spread


def test_laps_and_keys_have_orders_of_their_own():
    laps = [
        np.concatenate([draw_part(12, 4, 3 * lap + n, (1,)) for n in range(3)]).tolist()
        for lap in range(3)
    ]
    other = np.concatenate([draw_part(12, 4, n, (2,)) for n in range(3)]).tolist()
    assert len({tuple(order) for order in [*laps, other]}) == 4
