"""Training that was interrupted goes on at the next batch, and ends as if it had not been."""

import json
import pathlib

import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.stores import remote
from image_pipeline.components.training import checkpoint, resume, trainer
from image_pipeline.components.training.checkpoint import Checkpoints
from tests import graphs
from tests.noting_store import NotingStore
from tests.tiers import wide
from tests.training.models import build_linear_model
from tests.training.test_trainer import make_fn_args

pytestmark = pytest.mark.beam


class Interrupt(Exception):
    """What stops training in these tests."""


def train(folder, **options):
    """Trains; gives the history, and the weights that would be exported, float32 [any]."""
    exported, fn_args = [], make_fn_args(folder, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trainer, "export_model", lambda model, *_: exported.append(model))
        trainer.run_fn(fn_args)
    history = json.loads(pathlib.Path(fn_args.model_run_dir, "history.json").read_text())
    return history, np.concatenate([each.ravel() for each in exported[0].get_weights()])


def _interrupt_at(monkeypatch, step):
    """Makes training stop after so many steps (None: never)."""
    steps = []

    class Interrupting(Checkpoints):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            steps.append(batch)
            if len(steps) == step:
                raise Interrupt

    monkeypatch.setattr(resume, "Checkpoints", Interrupting)
    return steps


@pytest.fixture(scope="module")
def train_in_peace(tmp_path_factory):
    """What `train` gives by options without an interruption; once for each."""
    made = {}

    def find(**options):
        if (name := json.dumps(options)) not in made:
            made[name] = train(tmp_path_factory.mktemp("in_peace"), **options)
        return made[name]

    return find


# In the middle of the first epoch, at its end, and in the second.
@pytest.mark.parametrize("step", [2, wide(3), 4])
def test_an_interrupted_training_ends_as_one_in_peace(train_in_peace, step, tmp_path, monkeypatch):
    options = {"feeding": {"augment": ["random_resized_crop", "flip_horizontal"]}}
    history, weights = train_in_peace(**options)
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1}
    options |= {"training": checkpoints}
    _interrupt_at(monkeypatch, step)
    with pytest.raises(Interrupt):
        train(tmp_path, **options)
    done = _interrupt_at(monkeypatch, None)
    resumed, ended_with = train(tmp_path, **options)
    np.testing.assert_array_equal(ended_with, weights)
    # All epochs; of the one that was interrupted, the training's own figures are of its last part.
    for name, values in history["metrics"].items():
        whole = 2 if name.startswith("val_") else int(step > 3)
        assert resumed["metrics"][name][:whole] == values[:whole]
        assert len(resumed["metrics"][name]) == 2
    for name in ("seconds", "training_seconds", "input_wait_seconds"):
        assert len(resumed[f"{name}_per_epoch"]) == 2
    # Steps 3 and 6 end an epoch; their checkpoint is stored when the epoch has been evaluated.
    assert len(done) == 6 - (step - 1 if step % 3 == 0 else step)


DROPOUT = {"model": "tests.training.models.build_dropout_model"}
SEVERAL = {"steps_per_execution": 2}


@pytest.mark.wide
@pytest.mark.parametrize("options", [wide(DROPOUT), wide(SEVERAL), DROPOUT | SEVERAL])
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


RECIPE = "tests.training.models.build_by_recipe"
# In five steps an epoch, an update begins in one epoch and ends in the next.
AVERAGED = {
    **{"model": RECIPE, "optimizer": "sgd", "momentum": 0.9, "epochs": 3, "weight_decay": 0.01},
    **{"schedule": "cosine", "warmup_epochs": 0.5, "gradient_accumulation_steps": 2},
    **{"use_ema": True, "ema_momentum": 0.8, "early_stopping_patience": 5},
}
SCALED = {"model": RECIPE, "dtype_policy": "mixed_float16", "use_ema": True, "epochs": 2}


@pytest.mark.parametrize(
    ("options", "step"),
    [
        wide(AVERAGED, 1),
        (AVERAGED, 5),
        wide(AVERAGED, 7),
        wide(AVERAGED | {"steps_per_execution": 2}, 2),
        wide(SCALED, 3),
    ],
)
def test_every_part_of_the_recipe_goes_on(train_in_peace, options, step, tmp_path, monkeypatch):
    feeding = {"batch_size": 2}
    history, in_peace = train_in_peace(training=options, feeding=feeding)
    options = options | {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1}
    _interrupt_at(monkeypatch, step)
    with pytest.raises(Interrupt):
        train(tmp_path, training=options, feeding=feeding)
    _interrupt_at(monkeypatch, None)
    resumed, weights = train(tmp_path, training=options, feeding=feeding)
    np.testing.assert_array_equal(weights, in_peace)
    assert resumed["metrics"]["val_loss"][-1] == history["metrics"]["val_loss"][-1]
    assert resumed["best_epoch"] == history["best_epoch"]


def test_a_training_that_ended_early_stays_ended(tmp_path):
    # With this rate, the loss soon grows.
    options = {"epochs": 8, "learning_rate": 50.0, "early_stopping_patience": 2}
    options |= {"checkpoint_dir": str(tmp_path / "checkpoints")}
    history, weights = train(tmp_path, training=options)
    ended = len(history["metrics"]["loss"])
    assert history["best_epoch"] == ended - 3 and ended < 8
    again, the_same = train(tmp_path, training=options)
    assert again == history
    np.testing.assert_array_equal(the_same, weights)
    only = {**options, "epochs": ended - 2, "checkpoint_dir": None}
    _, best = train(tmp_path, training=only)
    np.testing.assert_array_equal(best, weights)


def test_other_epochs_are_another_run_only_if_the_rate_depends_on_them(tmp_path):
    def name(**training):
        return resume.name_run(make_fn_args(tmp_path, training=training))

    assert name(epochs=2) == name(epochs=3)
    assert name(epochs=2, schedule="cosine") != name(epochs=3, schedule="cosine")
    assert name(epochs=2, compile="my.one") != name(epochs=3, compile="my.one")


@pytest.mark.parametrize(
    "other",
    [
        {"preprocessing_fn": "g"},
        {"function_version": "1"},
        {"manifests": ["abc"]},
        {"splits": ["train", "eval"]},
        {"fraction": 0.5},
        {"unknown_label": "error"},
    ],
)
def test_another_graph_in_the_same_folder_is_another_run(tmp_path, other):
    fn_args, names = make_fn_args(tmp_path), []
    fn_args.transform_graph_path = str(tmp_path)
    for further in ({}, other, {"code_version": "1"}):
        graphs.write_analysis(tmp_path, **further)
        names.append(resume.name_run(fn_args))
    assert names[0] != names[1] and names[0] == names[2]


def test_fewer_epochs_than_are_trained_are_refused(tmp_path):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    train(tmp_path, training={"epochs": 2, **checkpoints})
    with pytest.raises(UserError, match=r"is 1, and the checkpoint is at step 0 of epoch 2"):
        train(tmp_path, training={"epochs": 1, **checkpoints})


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        ({"use_ema": True}, {"gradient_accumulation_steps": 2}, "Adam, average, iteration"),
        ({"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "lion"}, "SGD, iteration, momentum"),
        ({}, {"dtype_policy": "mixed_float16"}, "Adam, iteration, momentum, rate, velocity"),
    ],
    ids=str,
)
def test_the_state_of_another_optimizer_is_not_taken_for_ones_own(tmp_path, first, then, kept):
    folder = tmp_path / "checkpoints"
    built = {"model": "small"}
    train(tmp_path, training={**built, "epochs": 1, "checkpoint_dir": str(folder), **first})
    (position,) = folder.glob("*/*/position.json")
    again = {**built, "epochs": 2, "resume_from": str(position.parent), **then}
    message = rf"has the state of another optimizer \({kept}.* give the same training.optimizer"
    with pytest.raises(UserError, match=message):
        train(tmp_path, training=again)


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


@pytest.mark.wide
def test_a_finished_training_goes_on_with_more_epochs(tmp_path):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    train(tmp_path, training={"epochs": 2, **checkpoints})
    more, weights = train(tmp_path, training={"epochs": 3, **checkpoints})
    once, at_once = train(tmp_path, training={"epochs": 3})
    assert more["metrics"] == once["metrics"]
    np.testing.assert_array_equal(weights, at_once)


@pytest.mark.wide
def test_a_training_goes_on_with_other_steps_an_execution(tmp_path, monkeypatch):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1}
    _interrupt_at(monkeypatch, 1)
    with pytest.raises(Interrupt):
        train(tmp_path, training=checkpoints)
    _interrupt_at(monkeypatch, None)
    _, weights = train(tmp_path, training={"steps_per_execution": 3, **checkpoints})
    _, at_once = train(tmp_path)
    np.testing.assert_array_equal(weights, at_once)


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
    assert {name.split("/")[4] for name in store.held} == {"000001-000000000", "000001-000000005"}
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
