import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.json_files import check_json
from image_pipeline.components.json_text import parse_own
from image_pipeline.components.order.batches import (
    Position,
    batch_positions,
    real_records,
    share_by_owner,
    steps_per_epoch,
    worker_bounds,
)

pytestmark = pytest.mark.unit

LENGTHS, BATCH_SIZES = st.integers(1, 500), st.integers(1, 80)


def take_share(batch, worker, num_workers):
    start, stop = worker_bounds(len(batch), worker, num_workers)
    return batch[start:stop]


def epoch_of(batch_size, length, remainder):
    steps = steps_per_epoch(length, batch_size, remainder)
    return [batch_positions(step, batch_size, length, remainder) for step in range(steps)]


@given(LENGTHS, BATCH_SIZES)
def test_keep_has_every_position_once(length, batch_size):
    batches = epoch_of(batch_size, length, "keep")
    assert np.concatenate(batches).tolist() == list(range(length))
    assert all(len(batch) == batch_size for batch in batches[:-1])


@given(LENGTHS, BATCH_SIZES)
def test_drop_has_whole_batches_only(length, batch_size):
    batch_size = min(batch_size, length)
    batches = epoch_of(batch_size, length, "drop")
    assert all(len(batch) == batch_size for batch in batches)
    assert np.concatenate(batches).tolist() == list(range(length // batch_size * batch_size))


@given(LENGTHS, BATCH_SIZES)
def test_pad_fills_up_from_the_beginning(length, batch_size):
    batches = epoch_of(batch_size, length, "pad")
    assert all(len(batch) == batch_size and batch.dtype == np.int64 for batch in batches)
    real = [real_records(step, batch_size, length) for step in range(len(batches))]
    kept = [batch[:count] for batch, count in zip(batches, real, strict=True)]
    assert np.concatenate(kept).tolist() == list(range(length))
    padding = [n % length for n in range(batch_size - real[-1])]
    assert batches[-1][real[-1] :].tolist() == padding


@pytest.mark.parametrize(
    ("length", "remainder", "steps"),
    [
        (10, "keep", 4),
        (10, "drop", 3),
        (10, "pad", 4),
        (9, "keep", 3),
        (9, "drop", 3),
        (1, "pad", 1),
    ],
)
def test_steps_of_an_epoch_in_batches_of_three(length, remainder, steps):
    assert steps_per_epoch(length, 3, remainder) == steps


@given(st.integers(0, 100), st.integers(1, 8))
def test_workers_share_a_batch_without_gap_or_overlap(size, num_workers):
    batch = np.arange(size) * 3
    parts = [take_share(batch, worker, num_workers) for worker in range(num_workers)]
    assert np.concatenate(parts).tolist() == batch.tolist()
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(LENGTHS, BATCH_SIZES, st.integers(1, 8), st.sampled_from(["keep", "pad"]))
def test_the_global_batch_is_the_same_for_any_number_of_workers(
    length, batch_size, num_workers, remainder
):
    for alone in epoch_of(batch_size, length, remainder):
        parts = [take_share(alone, worker, num_workers) for worker in range(num_workers)]
        assert np.concatenate(parts).tolist() == alone.tolist()


def test_the_shares_of_ten_records():
    assert [worker_bounds(10, worker, 4) for worker in range(4)] == [
        (0, 2),
        (2, 5),
        (5, 7),
        (7, 10),
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: steps_per_epoch(0, 1, "keep"), "must be positive, got 0 and 1"),
        (lambda: steps_per_epoch(1, 0, "keep"), "set feeding.batch_size"),
        (lambda: steps_per_epoch(1, 1, "keeps"), "'keep', 'drop' or 'pad', got 'keeps'"),
        (lambda: batch_positions(4, 3, 10), r"step must be in \[0, 4\), got 4; go on with step 0"),
        (lambda: batch_positions(3, 3, 10, "drop"), r"step must be in \[0, 3\), got 3"),
        (lambda: batch_positions(-1, 3, 10), "got -1"),
    ],
)
def test_what_is_out_of_range_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_epoch_without_a_whole_batch_is_refused():
    with pytest.raises(UserError, match="epoch of 10 records has no whole batch of 64"):
        steps_per_epoch(10, 64, "drop")


POSITIONS = st.builds(
    Position, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)
)


@given(POSITIONS)
def test_a_position_survives_json_in_a_few_bytes(position):
    text = position.to_json()
    assert len(text) <= 100
    assert check_json(parse_own(text.encode()), Position) == position


@given(st.integers(0, 50), st.lists(st.integers(0, 300), max_size=5), st.integers(1, 40))
def test_advancing_in_parts_or_at_once_is_the_same(epoch, parts, steps):
    position = Position(3, epoch)
    for part in parts:
        position = position.advance(part, steps)
    assert position == Position(3, epoch).advance(sum(parts), steps)
    assert (position.epoch - epoch) * steps + position.step == sum(parts)
    assert position.step < steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", "decode|Expecting"),
        (b"[1, 2, 3]", "should be a dictionary"),
        (b'{"epoch": 2, "step": 3}', "its seed: Field required"),
        (b'{"seed": 1, "epoch": -2, "step": 3}', "epoch must be a whole number from 0 .*, got -2"),
        (b'{"seed": 1, "epoch": 2, "step": 3.5}', "its step: .*valid integer"),
        (b'{"seed": 9999999999999999999, "epoch": 2, "step": 3}', "seed must be"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_other_json_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        check_json(parse_own(text), Position)


def test_positions_only_move_on():
    with pytest.raises(ValueError, match=r"at least 0 .*, got -1 and 5"):
        Position(0).advance(-1, 5)
    with pytest.raises(ValueError, match="epoch must be a whole number"):
        Position(0, epoch=-1)


@given(st.lists(st.integers(0, 7), max_size=300), st.integers(1, 8))
def test_owners_take_what_is_theirs_in_equal_parts(owners, workers):
    owners = np.array(owners, np.int64) % workers
    takers = share_by_owner(owners, workers)
    parts = [len(take_share(owners, worker, workers)) for worker in range(workers)]
    assert np.bincount(takers, minlength=workers).tolist() == parts
    # No more are moved than are too many.
    counts = np.bincount(owners, minlength=workers)
    assert (takers != owners).sum() == np.maximum(counts - parts, 0).sum()


def test_of_owners_that_have_too_many_the_last_records_go_to_the_first_who_have_too_few():
    owners = np.array([2, 2, 0, 2, 2, 2, 0, 1])
    assert share_by_owner(owners, 4).tolist() == [2, 2, 0, 1, 3, 3, 0, 1]
    assert share_by_owner(owners[:0], 4).tolist() == []


def test_of_random_owners_few_move():
    owners = np.random.default_rng(0).integers(0, 8, (100, 1024))
    moved = [(share_by_owner(each, 8) != each).mean() for each in owners]
    assert np.mean(moved) == pytest.approx(0.4 / (1024 / 8) ** 0.5, rel=0.1)
