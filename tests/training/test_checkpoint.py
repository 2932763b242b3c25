"""What a checkpoint holds, when one is stored, and how many are kept."""

import pathlib

import keras
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.order.batches import Position
from image_pipeline.components.stores import remote
from image_pipeline.components.training import checkpoint
from tests.noting_store import NotingStore

pytestmark = pytest.mark.beam


def _compiled(units=2):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
    model.compile(optimizer="adam", loss="mse")
    return model


def _store(folder, *positions):
    for position in positions:
        callback = checkpoint.Checkpoints(str(folder), 1, position, steps_per_epoch=10)
        callback.set_model(_compiled())
        callback.on_epoch_end(0)


def test_checkpoints_are_stored_every_so_many_steps(tmp_path):
    callback = checkpoint.Checkpoints(str(tmp_path), 3, Position(7, 0, 1), steps_per_epoch=10)
    callback.set_model(_compiled())
    callback.set_params({"steps": 9})
    callback.on_epoch_begin(0)
    for batch in (0, 1, 4, 5, 6):  # steps 2, 3, 6, 7, 8
        callback.on_train_batch_end(batch)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "000000-000000003",
        "000000-000000006",
    ]


def test_no_checkpoint_is_the_beginning(tmp_path):
    assert checkpoint.restore_latest(_compiled(), str(tmp_path), 7) == Position(7)


def test_the_last_two_are_kept_and_the_latest_is_restored(tmp_path):
    _store(tmp_path, Position(7, 0, 9), Position(7, 1, 0), Position(7, 1, 5))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "000001-000000000",
        "000001-000000005",
    ]
    assert checkpoint.restore_latest(_compiled(), str(tmp_path), 7) == Position(7, 1, 5)
    assert pathlib.Path(tmp_path, "000001-000000005", "position.json").stat().st_size < 200


def test_a_store_that_tensorflow_does_not_know_holds_them_too(monkeypatch):
    store = NotingStore("s3://bucket/run")
    monkeypatch.setattr(remote, "_find_store", lambda uri: store)
    _store(store.folder, Position(7, 0, 9), Position(7, 1, 0))
    assert store.done[-1] == ("put", "000001-000000000/position.json")
    _store(store.folder, Position(7, 1, 5))
    deleted = [name for what, name in store.done if what == "delete"]
    assert deleted[0] == "000000-000000009/position.json"
    assert {name.split("/")[4] for name in store.held} == {
        "000001-000000000",
        "000001-000000005",
    }
    assert checkpoint.restore_latest(_compiled(), store.folder, 7) == Position(7, 1, 5)


def test_a_checkpoint_without_its_position_is_not_whole(tmp_path):
    _store(tmp_path, Position(7, 1, 0), Position(7, 1, 5))
    (tmp_path / "000001-000000005" / "position.json").unlink()
    assert checkpoint.restore_latest(_compiled(), str(tmp_path), 7) == Position(7, 1, 0)


def test_another_seed_or_model_is_an_error(tmp_path):
    _store(tmp_path, Position(7, 1, 0))
    with pytest.raises(UserError, match=r"training\.seed=7, not 8: .* set that seed"):
        checkpoint.restore_latest(_compiled(), str(tmp_path), 8)
    with pytest.raises(UserError, match=r"does not fit the model \(.*\); set another training"):
        checkpoint.restore_latest(_compiled(units=3), str(tmp_path), 7)
