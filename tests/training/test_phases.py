"""Two phases of fine-tuning, and training that was killed in either of them."""

import functools
import json
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.model import cross_entropy
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training import resume, trainer
from image_pipeline.components.training.recipe import Phases, _set_rate
from tests.tiers import wide
from tests.training.models import build_linear_model
from tests.training.test_resume import Interrupt, _interrupt_at
from tests.training.test_trainer import make_fn_args

pytestmark = pytest.mark.beam


def build_by_recipe(input_shape, num_classes, options):
    """The same, compiled as built-in models are."""
    model = build(input_shape, num_classes, options)
    compile_model(model, cross_entropy, None, options)
    return model


def build(input_shape, num_classes, options):
    """A convolution, a BatchNorm and a head."""
    inputs = keras.Input(input_shape)
    outputs = keras.layers.Conv2D(2, 3, strides=2)(inputs)
    outputs = keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.5)(outputs))
    outputs = keras.layers.Flatten()(outputs)
    outputs = keras.layers.Dense(num_classes, activation="softmax")(outputs)
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.Adam(options.learning_rate)
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    return model


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    keras.utils.set_random_seed(7)
    path = tmp_path_factory.mktemp("weights") / "of.weights.h5"
    build((8, 8, 3), 2, TrainingOptions()).save_weights(path)
    return str(path)


def _train(folder, weights, monkeypatch, **training):
    """Trains four epochs of three steps.

    Returns:
      The last weights, those after each epoch, the learning rates, and the history.
    """
    seen, rates, exported = {}, {}, []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen[epoch] = self.model.get_weights()
            rates[epoch] = float(self.model.optimizer.learning_rate)

    real = keras.Model.fit

    def fit(model, *args, callbacks, **more):
        return real(model, *args, callbacks=[Watch(), *callbacks], **more)

    monkeypatch.setattr(keras.Model, "fit", fit)
    monkeypatch.setattr(trainer, "export_model", lambda model, *_: exported.append(model))
    options = {
        "model": "tests.training.test_phases.build",
        "weights": weights,
        "fine_tuning": {"head_epochs": 2, "learning_rate": 0.01},
        "epochs": 4,
        **training,
    }
    fn_args = make_fn_args(folder, training=options)
    trainer.run_fn(fn_args)
    history = json.loads(pathlib.Path(fn_args.model_run_dir, "history.json").read_text())
    return exported[0].get_weights(), seen, rates, history


@pytest.fixture
def fit(weights, tmp_path, monkeypatch):
    """As `_train`, in a folder of the test's own."""
    return functools.partial(_train, tmp_path, weights, monkeypatch)


@pytest.fixture(scope="module")
def in_peace(weights, tmp_path_factory):
    """What `_train` gives without options and interruptions."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return _train(tmp_path_factory.mktemp("in_peace"), weights, monkeypatch)


def _differ(some, others):
    return [not np.array_equal(one, other) for one, other in zip(some, others, strict=True)]


# Weights: the convolution's two; BatchNorm's gamma, beta, mean and variance; the head's two.
def test_first_the_head_learns_and_then_all_but_batch_norm(in_peace, weights):
    start = build((8, 8, 3), 2, TrainingOptions())
    start.load_weights(weights)
    last, seen, rates, history = in_peace
    assert _differ(start.get_weights(), seen[1]) == [False] * 6 + [True] * 2
    assert _differ(seen[1], seen[2]) == [True] * 2 + [False] * 4 + [True] * 2
    assert list(rates.values()) == pytest.approx([0.1, 0.1, 0.01, 0.01])
    assert len(history["metrics"]["loss"]) == 4
    assert history["started_from"] == f"training.weights={weights}"
    assert not any(_differ(last, seen[3]))


@pytest.mark.wide
def test_batch_norm_learns_if_asked_for(fit):
    _, seen, _, _ = fit(fine_tuning={"head_epochs": 2, "batch_norm": "trained"})
    assert _differ(seen[1], seen[2]) == [True] * 8


def test_a_body_stays_frozen_throughout(fit):
    _, seen, rates, _ = fit(fine_tuning={"head_epochs": 9})
    assert _differ(seen[0], seen[3]) == [False] * 6 + [True] * 2
    assert list(rates.values()) == pytest.approx([0.1] * 4)


@pytest.mark.wide
# Of three steps an epoch: in the first phase, at its end, and in the second.
@pytest.mark.parametrize("step", [wide(2), wide(6), 8])
def test_training_that_was_interrupted_in_a_phase_ends_the_same(
    step, fit, in_peace, tmp_path, monkeypatch
):
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1}
    _interrupt_at(monkeypatch, step)
    with pytest.raises(Interrupt):
        fit(**checkpoints)
    _interrupt_at(monkeypatch, None)
    assert not any(_differ(fit(**checkpoints)[0], in_peace[0]))


@pytest.mark.wide
def test_several_steps_a_call_are_the_same_in_both_phases(fit, in_peace):
    assert not any(_differ(fit(steps_per_execution=2)[0], in_peace[0]))


@pytest.mark.wide
@pytest.mark.parametrize("recipe", [{"use_ema": True, "ema_momentum": 0.5}, {"schedule": "cosine"}])
def test_the_recipe_holds_in_both_phases(recipe, fit, tmp_path, monkeypatch):
    recipe = {"model": "tests.training.test_phases.build_by_recipe", **recipe}
    in_peace, seen, _, _ = fit(**recipe)
    # Of an average, what is exported is not what the last step left.
    assert any(_differ(in_peace, seen[3])) == ("use_ema" in recipe)
    checkpoints = {"checkpoint_dir": str(tmp_path / "checkpoints"), "checkpoint_steps": 1}
    for step in (2, 8):
        _interrupt_at(monkeypatch, step)
        with pytest.raises(Interrupt):
            fit(**recipe, **checkpoints)
    _interrupt_at(monkeypatch, None)
    assert not any(_differ(fit(**recipe, **checkpoints)[0], in_peace))


@pytest.mark.wide
def test_an_average_is_of_its_own_weight_in_the_second_phase(fit):
    recipe = {"model": "tests.training.test_phases.build_by_recipe", "use_ema": True}
    last, seen, _, _ = fit(**recipe, ema_momentum=0.0)  # the average is the last step's weights
    assert not any(_differ(last, seen[3]))


@pytest.mark.wide
def test_epochs_of_the_head_alone_end_no_training(fit):
    stopping = {"early_stopping_patience": 1, "early_stopping_monitor": "val_loss"}
    tuning = {"head_epochs": 2, "learning_rate": 1e9}
    _, seen, _, _ = fit(**stopping, learning_rate=1e-9, fine_tuning=tuning)
    assert max(seen) >= 2
    _, seen, _, _ = fit(**stopping, learning_rate=5.0, fine_tuning={"head_epochs": 9})
    assert max(seen) < 3


def test_a_schedule_is_scaled():
    class Falling(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5 / (1 + tf.cast(step, tf.float32))

    optimizer = keras.optimizers.SGD(Falling())
    _set_rate(optimizer, 0.5, 0.05, first_step=0)
    _set_rate(optimizer, 0.5, 0.05, first_step=0)
    assert float(optimizer.learning_rate) == pytest.approx(0.05)
    optimizer.iterations.assign(4)
    assert float(optimizer.learning_rate) == pytest.approx(0.01)


@pytest.mark.wide
def test_a_schedule_goes_on_though_the_optimizer_counts_anew(fit):
    recipe = {"model": "tests.training.test_phases.build_by_recipe", "schedule": "cosine"}
    # Of 12 steps, at the end of each epoch; a tenth of it in the second phase.
    cosine = [0.05 * (1 + np.cos(np.pi * step / 12)) for step in (3, 6, 9, 12)]
    _, _, rates, _ = fit(**recipe)
    wanted = [cosine[0], cosine[1], cosine[2] / 10, 0]
    assert list(rates.values()) == pytest.approx(wanted, abs=1e-6)


def test_weights_that_learn_later_move_by_the_rate():
    training = TrainingOptions(weights="w.h5", fine_tuning={"learning_rate": 1e-3})
    model = build_by_recipe((8, 8, 3), 2, training)
    phases = Phases(model, training)
    model.optimizer.iterations.assign(1000)  # of the head alone
    model.optimizer.variables[-1].assign_add([1.0, 1.0])
    phases.enter(2, 1)  # goes on in the midst of the second phase
    assert int(model.optimizer.iterations) == 1000
    phases.enter(2)
    assert int(model.optimizer.iterations) == 0 and not any(model.optimizer.variables[-1].numpy())
    before = model.get_weights()[0]
    images = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype(np.float32)
    model.fit(images, np.array([0, 1, 0, 0]), verbose=0)
    # Adam's first step is its rate; it would be 0.0025 by the moments of 1,000 earlier ones.
    moved = np.abs(model.get_weights()[0] - before)
    assert moved.max() == pytest.approx(1e-3, rel=1e-2)


def build_of_parts(input_shape, num_classes, options):
    """A layer of the user's own, of two others, and a model that ends in the head."""

    class Block(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.convolution = keras.layers.Conv2D(2, 3, strides=2)
            self.norm = keras.layers.BatchNormalization()

        def build(self, shape):
            self.convolution.build(shape)
            self.norm.build(self.convolution.compute_output_shape(shape))

        def call(self, images, training=None):
            return self.norm(self.convolution(images), training=training)

    dense = [keras.layers.Dense(4), keras.layers.Dense(num_classes, activation="softmax")]
    inputs = keras.Input(input_shape)
    model = keras.Model(inputs, keras.Sequential([keras.layers.Flatten(), *dense])(Block()(inputs)))
    compile_model(model, cross_entropy, None, options)
    return model


def test_layers_and_heads_within_others_are_found():
    training = TrainingOptions(weights="w.h5", fine_tuning={})
    model = build_of_parts((8, 8, 3), 2, training)
    phases = Phases(model, training)
    block = ["block/conv2d/kernel", "block/conv2d/bias"]
    hidden = ["sequential/dense/kernel", "sequential/dense/bias"]
    head = ["sequential/dense_1/kernel", "sequential/dense_1/bias"]
    for epoch, wanted in ((0, head), (2, block + hidden + head)):
        phases.enter(epoch)
        kinds = [re.sub(r"_\d+/", "/", each.path) for each in model.trainable_variables]
        assert kinds == [re.sub(r"_\d+/", "/", name) for name in wanted]


def test_what_a_user_froze_stays_frozen():
    training = TrainingOptions(weights="w.h5", fine_tuning={}, model="own.model")
    model = build_of_parts((8, 8, 3), 2, training)
    model.layers[1].convolution.trainable = False
    phases = Phases(model, training)
    phases.enter(2)
    assert len(model.trainable_variables) == 4
    for layer in model.layers[:-1]:
        layer.trainable = False
    model.layers[-1].layers[1].trainable = False
    with pytest.raises(UserError, match=r"own.model has no other layers that learn; leave"):
        Phases(model, training)


def test_a_model_without_a_body_or_a_known_head_is_refused():
    training = TrainingOptions(weights="w.h5", fine_tuning={}, model="own.model")
    with pytest.raises(UserError, match=r"training.model=own.model has no other layers"):
        Phases(build_linear_model((8, 8, 3), 2, training), training)

    class Own(keras.Model):
        def call(self, images):
            return images

    own = Own()
    own.compile(optimizer="adam")
    with pytest.raises(UserError, match="is a class of its own, which does not tell its head"):
        Phases(own, training)


@pytest.mark.parametrize(
    ("first_step", "parts"), [(0, [(1, 0, 1), (2, 0, 2)]), (5, [(1, 5, 1), (2, 0, 2)])]
)
def test_a_phase_begins_with_a_fit_of_its_own(first_step, parts):
    start = resume.Position(0, 1, first_step)
    assert list(resume.split_epochs(start, 4, 2)) == parts
    whole = [(1, 0, 3)] if not first_step else [(1, 5, 1), (2, 0, 2)]
    assert list(resume.split_epochs(start, 4, None)) == whole
