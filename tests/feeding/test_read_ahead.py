"""What is asked for ahead of a shuffle by shards: each record once, in large pieces, never more."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.dataset.index import IndexRows
from image_pipeline.components.feeding import read_ahead
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.read_ahead import ReadAhead
from image_pipeline.components.order.batches import batch_positions, real_records, steps_per_epoch
from image_pipeline.components.order.shards_order import ShardsOrder

pytestmark = pytest.mark.unit

RECORD_BYTES = 1000


class Index:
    """Of records that are all alike."""

    record_bytes = RECORD_BYTES

    def __init__(self, counts):
        self.starts = np.cumsum([0, *counts])
        self.sizes = np.array(counts) * RECORD_BYTES

    def take(self, rows):
        shard = np.searchsorted(self.starts, rows, "right") - 1
        values = dict.fromkeys(IndexRows._fields, np.ones(len(rows), np.int64))
        offset = (rows - self.starts[shard]) * RECORD_BYTES
        values |= {"shard": shard, "offset": offset, "label": rows}
        return IndexRows(**values | {"record_id": np.zeros((len(rows), 16), np.uint8)})


class Records:
    """Notes what is asked for, and what is held."""

    def __init__(self):
        self.asked, self.held, self.most = [], collections.Counter(), 0

    def announce(self, entries):
        self.asked.append([entry.row for entry in entries])
        self.held.update(entries)
        self.most = max(self.most, self.held.total())

    def release(self, entries):
        self.held.subtract(entries)
        assert min(self.held.values(), default=0) >= 0


class Trainer:
    """A worker that goes through batches, and looks that each of its records is there."""

    def __init__(self, counts, part=30, worker=0, workers=1, views=1, **options):
        options = {"batch_size": 16, "shuffle": "shards", "shards_at_once": 4} | options
        self.feeding = FeedingOptions(**options)
        self.index, self.records = Index(counts), Records()
        sizes = self.feeding.batch_size, self.feeding.shards_at_once, views
        self.order = ShardsOrder(range(sum(counts)), self.index.starts, 5, *sizes)
        self.steps = steps_per_epoch(self.order.length, sizes[0], self.feeding.remainder)
        self.passes = Passes(mode="train", epochs=2, worker=worker, workers=workers)
        shared = self.order, self.index, self.records, self.feeding, self.passes
        self.ahead = ReadAhead(*shared, self.steps)
        self.ahead._part = part

    def read(self, epoch, first_step=0, end=None):
        drawn = []
        for step in range(first_step, self.steps if end is None else end):
            shape = self.feeding.batch_size, self.order.length, self.feeding.remainder
            positions = batch_positions(step, *shape)
            start, stop = self.passes.cut_share(len(positions), self.feeding)
            self.ahead.advance(epoch, step)
            # What pads a batch was drawn before, and is not held.
            real = positions[start : min(stop, real_records(step, *shape[:2]))]
            found = self.ahead.find(epoch, real.tolist())
            rows = self.order.draw(epoch, real).rows.tolist()
            assert rows == ([] if found is None else found.label.tolist())
            self.ahead.release(epoch, positions[start:stop].tolist())
            drawn += rows
        return drawn

    def asked(self):
        return sorted(row for rows in self.records.asked for row in rows)


COUNTS = [100, 1, 90, 0, 110, 100, 100, 37, 100, 100, 100]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("remainder", ["keep", "drop", "pad"])
def test_each_record_is_asked_for_once_an_epoch_by_whoever_draws_it(workers, remainder):
    size, drawn = 48, []
    for worker in range(workers):
        options = {"batch_size": size, "remainder": remainder}
        trainer = Trainer(COUNTS, worker=worker, workers=workers, **options)
        own = trainer.read(0) + trainer.read(1)
        assert trainer.asked() == sorted(own)
        assert not +trainer.records.held
        drawn += own
    records = sum(COUNTS)
    if remainder != "drop":
        assert sorted(drawn) == sorted([*range(records)] * 2)
    else:
        assert len(drawn) == 2 * (records // size * size)


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=9).filter(any),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 50),
)
def test_no_more_is_held_than_a_shard_and_a_piece_a_lane(counts, size, lanes, views, part):
    options = {"batch_size": size, "shards_at_once": lanes, "views": views, "part": part}
    trainer = Trainer(counts, **options)
    for epoch in (0, 1):
        assert collections.Counter(trainer.read(epoch)) == dict.fromkeys(range(sum(counts)), views)
    assert not +trainer.records.held
    # Of a batch that is drawn at once, a lane has a part, too.
    in_batch = -(-trainer.feeding.batch_size // trainer.order.lanes)
    assert trainer.records.most <= trainer.order.lanes * (max(counts) + part + in_batch)


def test_a_request_is_a_piece_of_a_shard():
    trainer = Trainer([100] * 12, part=30, batch_size=16, shards_at_once=4)
    trainer.read(0)
    trainer.read(1)
    assert all(np.diff(rows).tolist() == [1] * (len(rows) - 1) for rows in trainer.records.asked)
    # 4 lanes of 300 rows are cut where their 12 shards are: 100 rows are 4 pieces.
    assert len(trainer.records.asked) == 2 * 12 * 4


@pytest.mark.parametrize("step", [1, 7, 40])
def test_going_on_asks_for_nothing_that_was_drawn(step):
    counts = [100] * 12
    whole = Trainer(counts)
    before = whole.read(0, end=step)
    after = Trainer(counts)
    drawn = after.read(0, first_step=step)
    assert before + drawn == Trainer(counts).read(0)
    asked = collections.Counter(after.asked())
    after.read(1)
    # Of the epoch, and of what comes first in the next one.
    assert not set(drawn) - set(asked)
    assert after.asked() == sorted([*drawn, *range(1200)])
    first = Trainer(counts)
    first.ahead.advance(0, step)
    assert not set(first.asked()) & set(before)
    assert len(first.asked()) <= 4 * (100 + 30 + 4)


def test_another_step_than_the_next_begins_anew():
    trainer = Trainer([100] * 12)
    trainer.read(0, end=5)
    trainer.read(0, 20, 25)
    trainer.read(0, 24, 30)
    held = trainer.records.held.total()
    assert 0 < held <= 4 * 130
    trainer.ahead.close()
    assert not +trainer.records.held
    assert trainer.read(1, 3, 5) == Trainer([100] * 12).read(1, 3, 5)


def test_an_iteration_s_end_asks_for_nothing_more_and_an_endless_one_goes_on():
    trainer = Trainer([100] * 12)
    trainer.read(1)  # The last of two.
    assert trainer.asked() == [*range(1200)]
    trainer = Trainer([100] * 12)
    object.__setattr__(trainer.passes, "epochs", None)
    trainer.read(1)
    assert 1200 + 4 * 100 <= len(trainer.asked()) <= 1200 + 4 * 130


def test_what_is_held_is_planned():
    megabyte = [10**6 // RECORD_BYTES] * 12
    for workers, views, lanes in ((1, 1, 4), (2, 1, 2), (4, 1, 1), (8, 1, 2), (2, 2, 3), (1, 2, 4)):
        trainer = Trainer(megabyte, workers=workers, views=views)
        stage = trainer.ahead.plan()
        assert stage.size_bytes == lanes * (10**6 + read_ahead._PART_BYTES)
        assert stage.made_of == f"{lanes} of shards_at_once x 1.0 MB, the largest shard"
