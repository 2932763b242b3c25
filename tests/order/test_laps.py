import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.order.balance import draw_part

pytestmark = pytest.mark.unit


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
