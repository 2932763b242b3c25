import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_pipeline.components.order.many_views import ViewsOrder
from image_pipeline.components.order.quality import (
    min_distance,
    rank_correlation,
    repeats_in_batches,
)
from tests.tiers import few

pytestmark = pytest.mark.unit

COUNTS, VIEWS = st.integers(1, 300), st.integers(1, 8)
SEEDS, EPOCHS = st.integers(0, 2**62), st.integers(0, 10**6)


def epoch_of(drawing, epoch=0):
    return drawing.draw(epoch, np.arange(drawing.length))


@given(COUNTS, VIEWS, SEEDS, EPOCHS)
def test_every_view_of_every_row_once_an_epoch(count, views, seed, epoch):
    rows = np.arange(count) * 7 + 3
    draws = epoch_of(ViewsOrder(rows, seed, views), epoch)
    pairs = sorted(zip(draws.rows.tolist(), draws.views.tolist(), strict=True))
    assert pairs == [(row, view) for row in rows.tolist() for view in range(views)]
    assert not draws.copies.any()


@given(COUNTS, VIEWS, SEEDS, EPOCHS)
def test_views_of_a_row_keep_their_distance(count, views, seed, epoch):
    drawing = ViewsOrder(range(count), seed, views)
    assert drawing.min_distance() >= count // 2
    assert min_distance(epoch_of(drawing, epoch).rows) >= drawing.min_distance()


@given(st.integers(2, 300), st.integers(2, 6), st.data())
def test_no_batch_holds_two_views_of_a_row(count, views, data):
    drawing = ViewsOrder(range(count), 0, views)
    batch_size = data.draw(st.integers(2, drawing.min_distance()))
    assert repeats_in_batches(epoch_of(drawing).rows, batch_size) == 0


def test_the_least_distance_is_reached():
    # With two rows a half, so many epochs meet the worst case.
    drawing = ViewsOrder(range(4), 0, 3)
    found = min(min_distance(epoch_of(drawing, epoch).rows) for epoch in range(50))
    assert found == drawing.min_distance() == 3
    assert ViewsOrder(range(5), 0, 2).min_distance() == 3
    assert ViewsOrder(range(5), 0, 1).min_distance() == 5


@given(COUNTS, VIEWS, st.integers(0, 20))
def test_a_draw_hangs_on_nothing_but_its_position(count, views, epoch):
    drawing = ViewsOrder(range(count), 5, views)
    positions = np.random.default_rng(0).permutation(drawing.length)
    whole, apart = epoch_of(drawing, epoch), drawing.draw(epoch, positions)
    assert (apart.rows == whole.rows[positions]).all()
    assert (apart.views == whole.views[positions]).all()


@settings(max_examples=few())
@given(SEEDS)
def test_every_pass_is_shuffled_and_no_two_are_alike(seed):
    rows = epoch_of(ViewsOrder(range(2000), seed, 3)).rows.reshape(3, 2000)
    for one in rows:
        assert abs(rank_correlation(one)) < 0.12  # Five standard deviations.
    # Within a half, the order of a pass says nothing about that of the next one.
    place = np.argsort(rows, axis=1)
    for half in (rows[0, :1000], rows[0, 1000:]):
        ranks = [np.argsort(np.argsort(place[number, half])) for number in (0, 1, 2)]
        assert np.abs(np.corrcoef(ranks) - np.eye(3)).max() < 0.17


def test_halves_change_from_epoch_to_epoch():
    drawing = ViewsOrder(range(2000), 0, 2)
    first, second = (set(epoch_of(drawing, epoch).rows[:1000].tolist()) for epoch in (0, 1))
    # 500 expected of a random half, standard deviation 11.
    assert len(first & second) == pytest.approx(500, abs=60)


def test_a_batch_holds_views_of_all_kinds():
    draws = epoch_of(ViewsOrder(range(10_000), 0, 5))
    views = draws.views.reshape(5, 10_000)
    for of_pass in views:
        assert np.bincount(of_pass, minlength=5) == pytest.approx([2000] * 5, abs=200)
    # Of the 20 pairs of views that a row has in the first two passes none is favoured.
    views = np.take_along_axis(views, np.argsort(draws.rows.reshape(5, 10_000), axis=1), axis=1)
    pairs = np.bincount(views[0] * 5 + views[1], minlength=25).reshape(5, 5)
    assert (np.diag(pairs) == 0).all()
    assert pairs[~np.eye(5, dtype=bool)] == pytest.approx([500] * 20, abs=110)


def test_seeds_and_epochs_matter():
    drawing = ViewsOrder(range(500), 0, 2)
    orders = [epoch_of(drawing), epoch_of(drawing, 1), epoch_of(ViewsOrder(range(500), 1, 2))]
    assert len({draws.rows.tobytes() for draws in orders}) == 3
    assert len({draws.views.tobytes() for draws in orders}) == 3


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="views must be at least 1, got 0"):
        ViewsOrder(range(3), 0, 0)
    with pytest.raises(ValueError, match="rows must not be empty"):
        ViewsOrder(range(0), 0, 1)
    with pytest.raises(ValueError, match=r"positions must be in \[0, 6\), got 6 to 6"):
        ViewsOrder(range(3), 0, 2).draw(0, np.array([6]))
