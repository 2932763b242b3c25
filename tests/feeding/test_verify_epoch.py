"""An epoch that holds what it should, and orders that are broken in every way."""

import copy
import dataclasses
import math
import shutil

import numpy as np
import pytest

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.verify_epoch import verify_epoch
from image_pipeline.components.order.balance import BalancedOrder
from image_pipeline.components.order.draws import Draws
from image_pipeline.components.order.order import ShuffledOrder

pytestmark = pytest.mark.beam


def verify(paths, epoch=0, seed=0, **feeding):
    return verify_epoch(paths, FeedingOptions(**{"batch_size": 4, **feeding}), seed, epoch)


def test_every_record_comes_once(train_shards):
    records = len(read_index(train_shards))
    verified = verify(train_shards, epoch=3)
    assert (verified.epoch, verified.records, verified.draws) == (3, records, records)
    assert (verified.steps, verified.padded, verified.dropped) == (math.ceil(records / 4), 0, 0)


def test_the_remainder_is_told(train_shards):
    records = len(read_index(train_shards))
    full, rest = divmod(records, 4)
    assert rest
    dropped = verify(train_shards, remainder="drop")
    assert (dropped.steps, dropped.draws, dropped.dropped) == (full, full * 4, rest)
    padded = verify(train_shards, remainder="pad")
    assert (padded.steps, padded.draws, padded.padded) == (full + 1, records, 4 - rest)


@pytest.mark.whole
@pytest.mark.parametrize(
    "feeding",
    [
        {"balance": "uniform"},
        {"balance": {"cat": 5, "dog": 1}},
        {"balance": {"cat": 5, "dog": 1}, "remainder": "drop"},
        {"many_views": {"crops": 2, "mirror": True}, "augment": ["random_resized_crop"]},
        {"select": {"fraction": 0.5}},
        {"select": {"where": 'label == "cat"'}, "batch_size": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("epoch", [0, 7])
def test_records_come_as_often_as_the_options_say(train_shards, feeding, epoch):
    index = read_index(train_shards)
    verified = verify(train_shards, epoch=epoch, **feeding)
    if "many_views" in feeding:
        assert (verified.draws, verified.records) == (4 * len(index), len(index))
    elif "select" in feeding:
        assert verified.draws == verified.records < len(index)
    else:
        assert verified.draws + verified.dropped == len(index)


def test_quality_stands_beside_the_ideal(train_shards):
    plain = verify(train_shards)
    records = len(read_index(train_shards))
    assert plain.ideal.repeated_neighbours == 2 / records
    assert abs(plain.quality.rank_correlation) < 4 / math.sqrt(records - 1)
    assert 1 <= plain.quality.classes_in_batch <= 2
    balanced = verify(train_shards, balance="uniform")
    assert balanced.quality is not None and balanced.ideal is None
    assert verify(train_shards, batch_size=100).quality is None


@pytest.fixture
def plant(monkeypatch):
    """Changes what orders draw: a function of (positions, draws) gives the broken draws."""

    def plant(change, order=ShuffledOrder):
        draw = order.draw
        monkeypatch.setattr(
            order, "draw", lambda self, epoch, where: change(where, draw(self, epoch, where))
        )

    return plant


def test_a_repeated_record_is_named(train_shards, plant):
    index = read_index(train_shards)

    def repeat(positions, draws):
        return dataclasses.replace(draws, rows=np.where(draws.rows == 5, 2, draws.rows))

    plant(repeat)
    with pytest.raises(UserError) as caught:
        verify(train_shards)
    message = str(caught.value)
    assert message.startswith(index.describe(2))
    assert "must be due 1 times, but comes 2 times, as 2 are wrong" in message
    assert message.endswith("if that finds nothing.")


def test_a_lost_record_is_named(train_shards, plant):
    index = read_index(train_shards)
    last = len(index) - 1

    def lose(positions, draws):
        kept = draws.rows != last
        return Draws(draws.rows[kept], draws.views[kept], draws.copies[kept])

    plant(lose)
    with pytest.raises(UserError) as caught:
        verify(train_shards)
    assert str(caught.value).startswith(index.describe(last))
    assert "due 1 times, but comes 0 times, as 1 are wrong" in str(caught.value)


def test_an_order_that_shifts_by_a_batch_is_found(train_shards, plant):
    plant(lambda positions, draws: dataclasses.replace(draws, rows=positions // 2 * 2))
    with pytest.raises(UserError, match=r"record 0 of .* due 1 times, but comes 2 times"):
        verify(train_shards)


def test_a_class_that_is_not_drawn_evenly_is_found(train_shards, plant):
    plant(
        lambda positions, draws: Draws(np.zeros_like(draws.rows), draws.views, positions),
        BalancedOrder,
    )
    with pytest.raises(UserError, match=r"record 0 of .* due \d or \d times, but comes 18 times"):
        verify(train_shards, balance={"cat": 2, "dog": 1})


def test_two_draws_that_are_the_same_image_are_found(train_shards, plant):
    plant(
        lambda positions, draws: dataclasses.replace(draws, copies=np.zeros_like(draws.copies)),
        BalancedOrder,
    )
    with pytest.raises(UserError, match="due in different views, but comes in the same one twice"):
        verify(train_shards, balance={"cat": 5, "dog": 1})


def test_a_record_that_the_index_does_not_mean_is_found(train_shards, monkeypatch):
    index = read_index(train_shards)
    swapped = copy.copy(index)
    swapped.record_id = index.record_id[::-1]
    monkeypatch.setattr(
        "image_pipeline.components.feeding.verify_epoch.find_index", lambda paths: swapped
    )
    with pytest.raises(UserError, match=r"must be there, but has the record id [0-9a-f]{32}; run"):
        verify(train_shards)


def test_an_id_that_two_rows_have_is_found(train_shards, monkeypatch):
    index = read_index(train_shards)
    same = index.record_id.copy()
    same[3] = same[1]
    twice = copy.copy(index)
    twice.record_id = same
    monkeypatch.setattr(
        "image_pipeline.components.feeding.verify_epoch.find_index", lambda paths: twice
    )
    monkeypatch.setattr(
        "image_pipeline.components.feeding.verify_epoch._read_step",
        lambda records, epoch, step, size: records.draw_records(epoch, step),
    )
    with pytest.raises(UserError) as caught:
        verify(train_shards)
    expected = f"{index.describe(3)} must be alone, but has the id of {index.describe(1)}"
    assert str(caught.value).startswith(expected)


def test_a_damaged_record_is_named_whatever_the_options_say(damaged):
    with pytest.raises(UserError, match=r"^record 2 of .* is damaged"):
        verify(damaged, bad_records="skip", verify="none")


def test_shards_without_an_index_are_refused(train_shards, tmp_path):
    folder = tmp_path / "Split-train"
    folder.mkdir()
    copied = shutil.copy(train_shards[0], folder)
    with pytest.raises(UserError, match="has none beside its Split folder; ingest again"):
        verify([str(copied)])
