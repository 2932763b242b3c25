"""Training that starts from the latest good model."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.signatures import CLASSES, IMAGE_BYTES, SERVE_IMAGES
from image_pipeline.components.training import resume, trainer
from image_pipeline.components.training.recipe import (
    choose_start,
    name_start,
    read_classes,
    start_from,
)
from tests.training.models import build_linear_model
from tests.training.test_trainer import make_fn_args

pytestmark = pytest.mark.beam


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
