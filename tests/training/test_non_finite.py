import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training import checkpoint, trainer
from image_pipeline.components.training.history import History, write_history
from image_pipeline.components.training.non_finite import (
    StopAtNonFinite,
    are_finite,
    check_probabilities,
    name_records,
)
from image_pipeline.components.views.options import ViewOptions
from tests import shards
from tests.training.models import build_linear_model
from tests.training.test_trainer import make_fn_args

pytestmark = pytest.mark.beam

EXPLODING = "tests.training.wrong_models.explodes"
VIEW = ViewOptions(height_px=8, width_px=8)


def explode(folder, **training):
    fn_args = make_fn_args(folder, training={"model": EXPLODING, "epochs": 4, **training})
    with pytest.raises(UserError) as raised:
        trainer.run_fn(fn_args)
    return fn_args, str(raised.value)


def test_training_stops_at_the_first_loss_that_is_not_finite_and_names_the_records(tmp_path):
    fn_args, message = explode(tmp_path)
    found = re.search(
        r"the loss became (nan|-?inf) at step (\d) of epoch (\d) .* Its records: (.*?)\. Lower",
        message,
    )
    assert found, message
    step, epoch = int(found[2]), int(found[3])
    # What the batch holds, read by `input_fn`'s own way from its position.
    options = FeedingOptions(batch_size=4)
    names = name_records(fn_args.train_files, VIEW, options, 0, Position(0, epoch, step), 1)
    assert found[4].split(", ") == names and len(names) in (2, 4)
    assert not pathlib.Path(fn_args.serving_model_dir).exists()


def test_of_several_steps_in_a_call_all_are_named(tmp_path):
    _, message = explode(tmp_path, steps_per_execution=3)
    assert "at one of the steps 0 to 2 of epoch " in message
    assert " and 2 more, listed in the log." in message  # of ten records


def test_checkpoints_of_weights_that_are_not_finite_are_not_stored(tmp_path):
    folder = tmp_path / "checkpoints"
    _, message = explode(tmp_path, checkpoint_dir=str(folder), checkpoint_steps=1)
    (named,) = re.findall(r"unless you set training\.resume_from=(\S+), its last", message)
    assert pathlib.Path(named) == max(folder.glob("*/*/position.json")).parent
    model = build_linear_model((8, 8, 3), 2, TrainingOptions())
    for position in folder.glob("*/*/position.json"):
        values = tf.train.load_checkpoint(str(position.parent / "state"))
        for name in values.get_variable_to_shape_map():
            tensor = values.get_tensor(name)
            assert not np.issubdtype(np.asarray(tensor).dtype, np.floating) or (
                np.isfinite(tensor).all()
            ), (position, name)
    kept = checkpoint.Checkpoints(str(tmp_path / "own"), 1, Position(0), 3)
    kept.set_model(model)
    model.optimizer.build(model.trainable_variables)
    kept.set_params({"steps": 3})
    kept.on_epoch_begin(0)
    kept.on_train_batch_end(0)
    model.set_weights([np.full_like(each, np.nan) for each in model.get_weights()])
    kept.on_train_batch_end(1)
    stored = [path.parent.name for path in (tmp_path / "own").glob("*/position.json")]
    assert stored == ["000000-000000001"]


def test_a_finite_loss_passes_and_other_figures_may_be_what_they_are():
    stop = StopAtNonFinite(Position(0, 1, 1), 3, lambda *_: [])
    stop.set_params({"steps": 2})
    stop.on_epoch_begin(1)
    stop.on_train_batch_end(0, {"loss": 1.0, "log_loss": float("nan")})
    with pytest.raises(UserError, match=r"the loss became inf at step 2 of epoch 1 \(counted from"):
        stop.on_train_batch_end(1, {"loss": float("inf")})
    with pytest.raises(UserError, match="the loss_of_shapes became nan"):
        stop.on_train_batch_end(1, {"loss_of_shapes": float("nan")})


def make_stop(find_checkpoint=lambda: None):
    stop = StopAtNonFinite(Position(0), 2, lambda position, _: [f"{position}"], find_checkpoint)
    stop.set_params({"steps": 2})
    stop.set_model(build_linear_model((8, 8, 3), 2, TrainingOptions()))
    stop.on_epoch_begin(0)
    for step in range(2):
        stop.on_train_batch_end(step, {"loss": 1.0})
    return stop


def test_weights_that_an_epochs_last_step_spoils_are_found():
    stop = make_stop(lambda: "runs/000001")
    stop.on_epoch_end(0, {"loss": 1.0, "val_loss": 1.0})
    stop.model.set_weights([np.full_like(each, np.nan) for each in stop.model.get_weights()])
    with pytest.raises(UserError) as raised:
        stop.on_epoch_end(0, {"loss": 1.0})
    told = str(raised.value)
    assert "weights became NaN or infinite at step 1 of epoch 0" in told
    assert str(Position(0, 0, 1)) in told
    assert "starts over, unless you set training.resume_from=runs/000001" in told


def test_a_validation_that_is_not_finite_is_told_and_stops_nothing(caplog):
    make_stop().on_epoch_end(0, {"loss": 1.0, "val_loss": float("nan"), "val_auc": float("nan")})
    assert "The val_loss of epoch 0 (counted from 0) is nan" in caplog.text
    assert "val_auc" not in caplog.text


def test_records_that_cannot_be_told_say_why():
    def name(position, count):
        raise UserError("no memory")

    stop = StopAtNonFinite(Position(0), 1, name)
    stop.set_params({"steps": 1})
    stop.on_epoch_begin(0)
    with pytest.raises(UserError, match="Its records are unknown: no memory Lower"):
        stop.on_train_batch_end(0, {"loss": float("nan")})


def test_records_are_named_in_their_order(tmp_path):
    pattern = shards.write_shards(tmp_path / "Split-train", shards.make_examples(10), 2)
    options = FeedingOptions(batch_size=4)
    first = name_records([pattern], VIEW, options, 7, Position(7, 0, 0), 1)
    both = name_records([pattern], VIEW, options, 7, Position(7, 0, 0), 2)
    assert len(first) == 4 and both[:4] == first
    every = name_records([pattern], VIEW, options, 7, Position(7, 2, 0), 3)
    assert sorted(every, key=int) == [str(number) for number in range(10)]


def test_what_is_finite():
    whole = tf.Variable([1, 2])
    assert are_finite([whole, tf.Variable([0.5])])
    assert not are_finite([whole, tf.Variable([0.5, np.inf])])
    probabilities = np.array([[0.5, 0.5]])
    assert check_probabilities(probabilities, "a.png") is probabilities
    with pytest.raises(UserError, match=r"finite probabilities, but gives nan for a\.png: it"):
        check_probabilities(np.array([[0.5, np.nan]]), "a.png")


def test_history_holds_null_where_a_metric_is_no_number(tmp_path):
    metrics = {"auc": [float("nan"), 0.5]}
    history = History(metrics=metrics, steps_per_epoch=1, seconds_per_epoch=[1.0, 1.0])
    write_history(str(tmp_path), history)
    text = (tmp_path / "history.json").read_text()
    assert "NaN" not in text and json.loads(text)["metrics"]["auc"] == [None, 0.5]
