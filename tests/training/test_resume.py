"""Training that was interrupted goes on at the next batch, and ends as if it had not been."""

import pathlib

import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training import checkpoint, resume, trainer
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

    monkeypatch.setattr(resume, "Checkpoints", Interrupting)
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
    with pytest.raises(UserError, match=r"is 1, and the checkpoint is at step 0 of epoch 2"):
        train(tmp_path, training={"epochs": 1, **checkpoints})


def test_an_epoch_that_has_become_shorter_is_refused(tmp_path):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 2}
    fn_args = make_fn_args(tmp_path, training=checkpoints)
    folder = pathlib.Path(
        checkpoints["checkpoint_dir"], resume.name_run(fn_args), "000000-000000003"
    )
    folder.mkdir(parents=True)
    model = build_linear_model((8, 8, 3), 2, TrainingOptions(learning_rate=0.1))
    checkpoint._trackable(model).write(str(folder / "state"))
    (folder / "position.json").write_text(Position(0, 0, 3).to_json())
    with pytest.raises(UserError, match=r"is at step 3, but an epoch has 3: the data has"):
        trainer.run_fn(fn_args)


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
