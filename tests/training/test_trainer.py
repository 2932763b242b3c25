import importlib
import json
import pathlib
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components import progress
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import read_class_names
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.signatures import CLASSES, IMAGE_BYTES, SERVE_IMAGES
from image_pipeline.components.training import resume, trainer
from image_pipeline.components.training.recipe import (
    choose_start,
    name_start,
    read_classes,
    start_from,
)
from tests import graphs, shards
from tests.tiers import wide
from tests.training.models import build_linear_model

pytestmark = pytest.mark.beam

LINEAR = "tests.training.models.build_linear_model"


def make_fn_args(folder, training=None, feeding=None, view=None):
    """What TFX passes to `run_fn`: ten records to train on and three to evaluate with."""
    return types.SimpleNamespace(
        train_files=[shards.write_shards(folder / "Split-train", shards.make_examples(10), 2)],
        eval_files=[shards.write_shards(folder / "Split-eval", shards.make_examples(3))],
        transform_graph_path=graphs.shared_graph_dir(),
        serving_model_dir=str(folder / "serving"),
        model_run_dir=str(folder / "run"),
        custom_config={
            "view": {"height_px": 8, "width_px": 8, **(view or {})},
            "feeding": {"batch_size": 4, **(feeding or {})},
            "training": {"model": LINEAR, "epochs": 2, "learning_rate": 0.1, **(training or {})},
        },
    )


def train(folder, **options):
    """Trains; gives the history and what the exported model answers."""
    fn_args = make_fn_args(folder, **options)
    trainer.run_fn(fn_args)
    history = json.loads(pathlib.Path(fn_args.model_run_dir, "history.json").read_text())
    loaded = tf.saved_model.load(fn_args.serving_model_dir)
    answer = loaded.signatures["serving_examples"](examples=tf.constant(shards.make_examples(4)))
    return history, answer["probabilities"].numpy()


@pytest.fixture
def train_only(monkeypatch, tmp_path):
    """Trains without exporting; gives the metrics of every epoch."""
    monkeypatch.setattr(trainer, "export_model", lambda *_: None)

    def run(**options):
        fn_args = make_fn_args(tmp_path, **options)
        trainer.run_fn(fn_args)
        return json.loads(pathlib.Path(fn_args.model_run_dir, "history.json").read_text())[
            "metrics"
        ]

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(tmp_path_factory.mktemp("trained"))


@pytest.mark.wide
def test_on_one_device_a_strategy_changes_nothing(trained, tmp_path):
    history, probabilities = train(tmp_path, training={"strategy": "mirrored"})
    np.testing.assert_allclose(probabilities, trained[1], rtol=1e-5)
    for name, values in trained[0]["metrics"].items():
        assert history["metrics"][name] == pytest.approx(values, rel=1e-5)
    assert history["input_wait_seconds_per_epoch"] is None


def test_a_step_is_traced_once(train_only, monkeypatch):
    traced, step = [], keras.Model.train_step

    def train_step(model, batch):
        traced.append(batch)
        return step(model, batch)

    monkeypatch.setattr(keras.Model, "train_step", train_step)
    train_only(training={"model": "small"})  # Adam has variables of its own.
    assert len(traced) == 1


@pytest.mark.wide
def test_another_learning_rate_goes_on_from_the_checkpoint_that_is_named(train_only, tmp_path):
    folder = str(tmp_path / "checkpoints")
    first = train_only(training={"checkpoint_dir": folder, "epochs": 1})["loss"]
    whole = train_only(training={"learning_rate": 0.01})
    (position,) = (tmp_path / "checkpoints").glob("*/*/position.json")
    start = {"resume_from": str(position.parent), "checkpoint_dir": folder}
    slower = train_only(training={**start, "learning_rate": 0.01})
    assert len(slower["loss"]) == 2 and slower["loss"][:1] == first  # the checkpoint's own
    same = train_only(training=start)
    assert same["loss"] == train_only()["loss"]
    assert slower["loss"][1] not in (same["loss"][1], whole["loss"][1])
    again = train_only(training={**start, "learning_rate": 0.01, "epochs": 3})
    assert again["loss"][:2] == slower["loss"]  # The third: its own checkpoint comes first.
    assert len(again["loss"]) == 3
    with pytest.raises(
        UserError, match="must be the folder of a complete checkpoint, but /nowhere"
    ):
        train_only(training={"resume_from": "/nowhere"})


def test_history_tells_metrics_steps_and_seconds_of_every_epoch(trained):
    history, probabilities = trained
    assert set(history) == {
        *("metrics", "steps_per_epoch", "seconds_per_epoch"),
        *("training_seconds_per_epoch", "input_wait_seconds_per_epoch"),
        *("unknown_records", "softmax_added", "started_from", "best_epoch"),
        *("random_steps", "noticed", "content_sha256"),
    }
    assert history["steps_per_epoch"] == 3
    assert [seconds > 0 for seconds in history["seconds_per_epoch"]] == [True, True]
    assert set(history["metrics"]) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert all(len(values) == 2 for values in history["metrics"].values())
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"steps_per_execution": 2},
        {"model": "tests.training.models.build_model_of_two_steps_an_execution"},
    ],
    ids=str,
)
def test_steps_are_counted_and_several_at_once_train_the_same_model(options, trained, train_only):
    metrics = train_only(training=options)
    # Two epochs of three steps each.
    reached = progress.look()
    assert (reached.unit, reached.total, reached.done) == ("steps", 6, 6)
    assert reached.told.startswith("after epoch 2 of 2: accuracy 0.")
    assert {name: metrics[name] for name in ("loss", "val_loss")} == {
        name: trained[0]["metrics"][name] for name in ("loss", "val_loss")
    }


@pytest.mark.parametrize(("at_once", "calls"), [(None, [2, 1]), (1, [1, 1, 1]), (3, [3])])
def test_steps_per_execution_replaces_what_the_model_was_compiled_with(
    at_once, calls, train_only, monkeypatch
):
    counts = []
    monkeypatch.setattr(progress, "advance", counts.append)
    model = "tests.training.models.build_model_of_two_steps_an_execution"
    train_only(training={"model": model, "epochs": 1, "steps_per_execution": at_once})
    assert counts == calls


@pytest.mark.wide
def test_the_default_model_is_the_same_with_several_steps_at_once(train_only):
    default = {"model": "image_pipeline.components.models.model.build_model"}
    assert train_only(training={"steps_per_execution": 2, **default}) == train_only(
        training=default
    )


@pytest.mark.wide
def test_steps_are_profiled(train_only, tmp_path):
    train_only(training={"profile_steps": 1})
    told = json.loads((tmp_path / "run" / "profile.json").read_text())
    assert (told["folder"], told["steps"]) == (str(tmp_path / "run"), 1)


def test_training_again_gives_the_same_model(trained, tmp_path):
    history, probabilities = train(tmp_path)
    assert history["metrics"] == trained[0]["metrics"]
    np.testing.assert_array_equal(probabilities, trained[1])


@pytest.mark.parametrize(
    "options",
    [
        {"training": {"seed": 1}},
        {"training": {"learning_rate": 0.01}},
        {"training": {"epochs": 3}},
        wide({"training": {"model": "image_pipeline.components.models.model.build_model"}}),
        {"feeding": {"batch_size": 5}},
        wide({"feeding": {"remainder": "drop"}}),
        wide({"feeding": {"augment": ["flip_horizontal"]}}),
        wide({"feeding": {"dtype": "bfloat16"}}),
        wide({"view": {"crop_fraction": 0.5}}),
    ],
    ids=str,
)
def test_every_option_reaches_training(options, trained, train_only):
    assert train_only(**options) != trained[0]["metrics"]


@pytest.mark.wide
def test_the_default_model_is_reproducible_too(train_only):
    default = {"model": "image_pipeline.components.models.model.build_model"}
    assert train_only(training=default) == train_only(training=default)


@pytest.mark.wide
def test_the_default_model_learns_from_mixed_labels_too(train_only):
    default = {"model": "image_pipeline.components.models.model.build_model"}
    mixed = train_only(training=default, feeding={"augment": ["mixup"]})
    assert set(mixed) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert mixed != train_only(training=default, feeding={"augment": []})


def test_a_second_import_trains_as_the_first(trained, train_only, monkeypatch):
    importlib.reload(trainer)  # as TFX does
    monkeypatch.setattr(trainer, "export_model", lambda *_: None)
    assert train_only() == trained[0]["metrics"]


@pytest.mark.wide
def test_the_log_has_a_line_an_epoch_and_no_warning(tmp_path, capfd, recwarn):
    trainer.run_fn(make_fn_args(tmp_path))
    lines = [line for line in capfd.readouterr().out.splitlines() if "loss" in line]
    assert len(lines) == 2 and all(line.startswith("3/3 - ") for line in lines)
    # Files that other tests left open are closed, with a warning, whenever Python tidies up.
    told = [str(one.message) for one in recwarn if one.category is not ResourceWarning]
    assert [message for message in told if "data" in message] == []


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("training", {"epoch": 2}, "epoch\n  Extra inputs are not permitted"),
        (
            "training",
            {"model": "tests.training.models.build_liner"},
            "Did you mean build_linear_model",
        ),
        ("view", {"channels": 0}, "channels\n  Input should be greater than 0"),
    ],
)
def test_wrong_options_are_refused(section, values, message, tmp_path):
    with pytest.raises((ValueError, UserError), match=message):
        trainer.run_fn(make_fn_args(tmp_path, **{section: values}))


def test_class_weights_with_mixed_labels_are_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(
        trainer, "build_checked_model", lambda *_, **__: pytest.fail("it began to work")
    )
    with pytest.raises(UserError, match="class_weights weigh records of one class, but mixup"):
        trainer.run_fn(
            make_fn_args(
                tmp_path,
                feeding={"batch_size": 4, "augment": ["mixup"]},
                training={"class_weights": "balanced"},
            )
        )


def test_class_names_come_in_the_order_of_ids():
    assert read_class_names(graphs.shared_graph_dir()) == ["cat", "dog"]


def test_a_graph_without_a_label_vocabulary_is_explained(tmp_path):
    def no_vocabulary(inputs):
        return {"image": tf.cast(inputs["image"], tf.float32)}

    graphs.write_graph(tmp_path, preprocessing_fn=no_vocabulary)
    with pytest.raises(UserError, match="must have a vocabulary named 'label'; give the"):
        read_class_names(str(tmp_path))


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """An exported model of the classes cat and dog."""
    fn_args = make_fn_args(tmp_path_factory.mktemp("pushed"), training={"epochs": 1})
    trainer.run_fn(fn_args)
    return fn_args


def _start(pushed, classes):
    keras.utils.set_random_seed(5)
    options = TrainingOptions(warm_start="latest_blessed")
    training = choose_start(options, pushed.serving_model_dir)
    model = build_linear_model((8, 8, 3), len(classes), training)
    before = model.get_weights()[0]
    start_from(model, training, classes)
    return before, model.get_weights()[0]


def test_a_pushed_model_is_taken_over_class_by_class(pushed):
    assert read_classes(pushed.serving_model_dir) == ("cat", "dog")
    _, same = _start(pushed, ["cat", "dog"])
    _, turned = _start(pushed, ["dog", "cat"])
    np.testing.assert_array_equal(turned, same[:, ::-1])
    before, more = _start(pushed, ["dog", "owl", "cat"])
    np.testing.assert_array_equal(more[:, [2, 0]], same)
    np.testing.assert_array_equal(more[:, 1], before[:, 1])


def test_a_folder_that_is_written_anew_is_read_anew(pushed, tmp_path):
    folder = str(tmp_path / "model")
    shutil.copytree(pushed.serving_model_dir, folder)
    assert read_classes(folder) == ("cat", "dog")

    class Other(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=IMAGE_BYTES)])
        def serve(self, image):
            return {CLASSES: tf.constant([["dog", "cat"]])}

    other = Other()
    shutil.rmtree(folder)
    tf.saved_model.save(other, folder, signatures={SERVE_IMAGES: other.serve})
    assert read_classes(folder) == ("dog", "cat")


def test_the_trainer_starts_from_it_if_asked_to(pushed, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "export_model", lambda *_: None)
    first = []
    monkeypatch.setattr(keras.Model, "fit", lambda model, *_, **__: first.append(model))
    for warm_start, base_model in (
        *(("none", None), ("latest_blessed", pushed.serving_model_dir)),
        ("none", pushed.serving_model_dir),
    ):
        fn_args = make_fn_args(tmp_path, training={"warm_start": warm_start})
        fn_args.base_model = base_model
        if base_model and warm_start == "none":
            with pytest.raises(UserError, match="be latest_blessed where the Trainer has a"):
                trainer.run_fn(fn_args)
            continue
        trainer.run_fn(fn_args)
    _, theirs = _start(pushed, ["cat", "dog"])
    np.testing.assert_array_equal(first[1].get_weights()[0], theirs)
    assert not np.array_equal(first[0].get_weights()[0], theirs)


def test_without_a_good_model_it_starts_from_weights(pushed):
    folder = pushed.serving_model_dir
    for weights in ("w.h5", folder):
        training = TrainingOptions(warm_start="latest_blessed", weights=weights)
        found = choose_start(training, None)
        assert found.weights == weights and name_start(found) == f"training.weights={weights}"
    started = choose_start(training, pushed.serving_model_dir)
    assert name_start(started).startswith("training.warm_start=latest_blessed (/")


def test_checkpoints_of_another_start_are_another_runs(tmp_path):
    fn_args = make_fn_args(tmp_path, training={"warm_start": "latest_blessed"})
    names = []
    for base_model in (None, "one", "two", "two"):
        fn_args.base_model = base_model
        names.append(resume.name_run(fn_args))
    assert len(set(names)) == 3 and names[2] == names[3]


def test_another_networks_model_is_refused(pushed):
    training = TrainingOptions(weights=pushed.serving_model_dir)
    model = build_linear_model((4, 4, 3), 2, training)
    with pytest.raises(UserError, match=r"training.weights=.* arrays that do not fit the model"):
        start_from(model, training)
