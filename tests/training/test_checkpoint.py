"""Training that was interrupted goes on at the next batch, and ends as if it had not been."""

import pathlib

import keras
import numpy as np
import pytest

from components.errors import UserError
from components.feeding.batches import Position
from components.training import checkpoint, trainer
from components.training.options import TrainingOptions
from tests.training.models import build_linear_model
from tests.training.test_trainer import make_fn_args, train

pytestmark = pytest.mark.beam


class Interrupt(Exception):
    """What stops training in these tests."""


def _interrupt_at(monkeypatch, step):
    """Makes training stop after so many steps (None: never)."""
    steps = []

    class Interrupting(checkpoint.Checkpoints):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            steps.append(batch)
            if len(steps) == step:
                raise Interrupt

    monkeypatch.setattr(trainer, "Checkpoints", Interrupting)
    return steps


@pytest.fixture(scope="module")
def in_peace(tmp_path_factory):
    return train(
        tmp_path_factory.mktemp("in_peace"),
        feeding={"augment": ["random_resized_crop", "flip_horizontal"]},
    )


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_an_interrupted_training_ends_as_one_in_peace(in_peace, step, tmp_path, monkeypatch):
    history, probabilities = in_peace
    options = {
        "feeding": {"augment": ["random_resized_crop", "flip_horizontal"]},
        "training": {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1},
    }
    _interrupt_at(monkeypatch, step)
    with pytest.raises(Interrupt):
        train(tmp_path, **options)
    done = _interrupt_at(monkeypatch, None)
    resumed, answer = train(tmp_path, **options)
    np.testing.assert_array_equal(answer, probabilities)
    assert resumed["metrics"]["val_loss"][-1] == history["metrics"]["val_loss"][-1]
    # Steps 3 and 6 end an epoch; their checkpoint is stored when the epoch has been evaluated.
    assert len(done) == 6 - (step - 1 if step % 3 == 0 else step)


@pytest.mark.parametrize(
    "options", [{"model": "tests.training.models.build_dropout_model"}, {"steps_per_execution": 2}]
)
def test_random_layers_and_longer_executions_go_on_too(options, tmp_path, monkeypatch):
    feeding = {"batch_size": 2}  # five steps an epoch
    _, in_peace = train(tmp_path, training=options, feeding=feeding)
    options = options | {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1}
    _interrupt_at(monkeypatch, 1)
    with pytest.raises(Interrupt):
        train(tmp_path, training=options, feeding=feeding)
    _interrupt_at(monkeypatch, None)
    _, resumed = train(tmp_path, training=options, feeding=feeding)
    np.testing.assert_array_equal(resumed, in_peace)


def test_fewer_epochs_than_are_trained_are_refused(tmp_path):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    train(tmp_path, training={"epochs": 2, **checkpoints})
    with pytest.raises(UserError, match=r"is 1, and the checkpoint stands at step 0 of epoch 2"):
        train(tmp_path, training={"epochs": 1, **checkpoints})


def test_an_epoch_that_has_become_shorter_is_refused(tmp_path):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 2}
    fn_args = make_fn_args(tmp_path, training=checkpoints)
    folder = pathlib.Path(
        checkpoints["checkpoint_dir"], trainer._name_run(fn_args), "000000-000000003"
    )
    folder.mkdir(parents=True)
    model = build_linear_model((8, 8, 3), 2, TrainingOptions(learning_rate=0.1))
    checkpoint._trackable(model).write(str(folder / "state"))
    (folder / "position.json").write_text(Position(0, 0, 3).to_json())
    with pytest.raises(UserError, match=r"stands at step 3, but an epoch has 3: the data have"):
        trainer.run_fn(fn_args)


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


def test_a_finished_training_goes_on_with_more_epochs(tmp_path):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    train(tmp_path, training={"epochs": 2, **checkpoints})
    more, answer = train(tmp_path, training={"epochs": 3, **checkpoints})
    _, at_once = train(tmp_path, training={"epochs": 3})
    assert len(more["metrics"]["loss"]) == 1
    np.testing.assert_array_equal(answer, at_once)


def test_a_training_goes_on_with_other_steps_an_execution(tmp_path, monkeypatch):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1}
    _interrupt_at(monkeypatch, 1)
    with pytest.raises(Interrupt):
        train(tmp_path, training=checkpoints)
    _interrupt_at(monkeypatch, None)
    _, answer = train(tmp_path, training={"steps_per_execution": 3, **checkpoints})
    _, at_once = train(tmp_path)
    np.testing.assert_array_equal(answer, at_once)


def test_other_options_never_go_on_from_it(tmp_path):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    train(tmp_path, training=checkpoints)
    history, _ = train(tmp_path, training={"learning_rate": 0.2, **checkpoints})
    assert len(history["metrics"]["loss"]) == 2


def _compiled(units=2):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
    model.compile(optimizer="adam", loss="mse")
    return model


def _store(folder, *positions):
    for position in positions:
        callback = checkpoint.Checkpoints(str(folder), 1, position, steps_per_epoch=10)
        callback.set_model(_compiled())
        callback.on_epoch_end(0)


def test_no_checkpoint_is_the_beginning(tmp_path):
    assert checkpoint.restore_latest(_compiled(), str(tmp_path), 7) == Position(7)


def test_the_last_two_are_kept_and_the_latest_is_restored(tmp_path):
    _store(tmp_path, Position(7, 0, 9), Position(7, 1, 0), Position(7, 1, 5))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "000001-000000000",
        "000001-000000005",
    ]
    assert checkpoint.restore_latest(_compiled(), str(tmp_path), 7) == Position(7, 1, 5)
    assert pathlib.Path(tmp_path, "000001-000000005", "position.json").stat().st_size < 100


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
