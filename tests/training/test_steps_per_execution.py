"""Several steps in one call of the model change nothing but the calls."""

import contextlib
import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training import profile as step_profile
from image_pipeline.components.training.history import PROFILE_FILE
from image_pipeline.components.training.profile import find_traces, plan_profile
from image_pipeline.components.training.steps_per_execution import (
    StepsCallback,
    WholeEpochs,
    hide_length,
)

pytestmark = pytest.mark.e2e


class _Recorder(StepsCallback):
    """Notes how many steps each call made, and which batches each epoch took."""

    def __init__(self, taken):
        super().__init__()
        self._taken = taken
        self.counts, self.taken = [], []

    def on_steps(self, count):
        self.counts.append(count)

    def on_epoch_end(self, epoch, logs=None):
        self.taken.append(int(self._taken))


def _fit(steps_per_execution, steps=5, epochs=2):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            *(keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization()),
            *(keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(0.3)),
            keras.layers.Dense(2),
        ]
    )
    model.compile(optimizer="adam", loss="mse", steps_per_execution=steps_per_execution)
    taken = tf.Variable(0, trainable=False)

    def make(number):
        taken.assign_add(1)
        images = tf.random.stateless_uniform([3, 8, 8, 3], tf.stack([number, 1]))
        return images, tf.zeros([3, 2])

    read_nothing_ahead = tf.data.Options()
    read_nothing_ahead.experimental_optimization.inject_prefetch = False
    data = tf.data.Dataset.range(steps * epochs).map(make).with_options(read_nothing_ahead)
    evaluation = tf.data.Dataset.from_tensors((tf.ones([3, 8, 8, 3]), tf.ones([3, 2]))).repeat(3)
    recorder = _Recorder(taken)
    history = model.fit(
        data if steps_per_execution == 1 else hide_length(data),
        epochs=epochs,
        steps_per_epoch=steps,
        validation_data=evaluation,
        shuffle=False,
        verbose=0,
        callbacks=[WholeEpochs(), recorder],
    )
    assert model.steps_per_execution == steps_per_execution
    return recorder, history.history, model.get_weights()


@pytest.fixture(scope="module")
def one_by_one():
    return _fit(1)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("steps_per_execution", "counts"), [(2, [2, 2, 1]), (5, [5]), (9, [5]), (4, [4, 1])]
)
def test_epochs_end_with_their_last_step_and_weights_are_the_same(
    steps_per_execution, counts, one_by_one
):
    recorder, history, weights = _fit(steps_per_execution)
    assert recorder.counts == counts * 2
    assert recorder.taken == one_by_one[0].taken == [5, 10]
    assert history == one_by_one[1]
    for got, expected in zip(weights, one_by_one[2], strict=True):
        np.testing.assert_array_equal(got, expected)


class _Log(StepsCallback):
    """Notes the steps, in the order of all else that is noted."""

    def __init__(self, events):
        super().__init__()
        self._events = events

    def on_steps(self, count):
        self._events.append(count)

    def on_epoch_end(self, epoch, logs=None):
        self._events.append("evaluated")


def _fit_profiled(folder, steps, epochs, at_once=1, events=None, **options):
    model = keras.Sequential([keras.Input((300,)), keras.layers.Dense(200)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=at_once)
    batch = tf.ones([100, 300]), tf.ones([100, 200])
    data = tf.data.Dataset.from_tensors(batch).repeat(steps * epochs)
    with contextlib.ExitStack() as traces:
        training = TrainingOptions(epochs=epochs, **options)
        profile = plan_profile(str(folder), training, 0, traces)
        log = _Log([] if events is None else events)
        callbacks = [WholeEpochs(), log, *profile]
        data = hide_length(data)
        model.fit(data, epochs=epochs, steps_per_epoch=steps, verbose=0, callbacks=callbacks)
    return profile


@pytest.fixture
def events(monkeypatch):
    """What happens, in order; nothing is traced."""
    events = []

    @contextlib.contextmanager
    def record(folder):
        events.append("begin")
        yield
        events.append("end")

    monkeypatch.setattr(step_profile, "record_trace", record)
    return events


@pytest.mark.parametrize(
    ("steps", "epochs", "at_once", "wanted", "expected"),
    [
        (6, 1, 1, 2, [1, 1, "begin", 1, 1, "end", 1, 1, "evaluated"]),
        # The middle epoch.
        (3, 2, 1, 1, [1, 1, 1, "evaluated", 1, "begin", 1, "end", 1, "evaluated"]),
        # No more than the epoch has, and not the call that compiles.
        (3, 1, 1, 50, [1, "begin", 1, 1, "end", "evaluated"]),
        # Whole calls.
        (9, 1, 2, 3, [2, "begin", 2, 2, "end", 2, 1, "evaluated"]),
    ],
)
def test_the_middle_steps_are_traced(tmp_path, events, steps, epochs, at_once, wanted, expected):
    _fit_profiled(tmp_path, steps, epochs, at_once, events, profile_steps=wanted)
    assert events == expected


def test_a_trace_is_left_with_its_summary(tmp_path):
    (profile,) = _fit_profiled(tmp_path, 6, 1, profile_steps=2)
    profile.write_summary()
    (trace,) = find_traces(str(tmp_path))
    told = json.loads((tmp_path / PROFILE_FILE).read_text())
    assert (told["folder"], told["steps"]) == (str(tmp_path), 2)
    assert told["size_bytes"] == tf.io.gfile.stat(trace).length > 0
    assert any(op["kind"].endswith("MatMul") for op in told["slowest"])


def test_without_steps_to_trace_there_is_no_summary(tmp_path):
    (profile,) = _fit_profiled(tmp_path, 1, 1, profile_steps=2)  # The only step compiles.
    profile.write_summary()
    assert list(tmp_path.iterdir()) == []
    assert _fit_profiled(tmp_path, 1, 1) == []


def test_an_error_ends_the_trace(tmp_path):
    with pytest.raises(ZeroDivisionError), contextlib.ExitStack() as traces:
        (profile,) = plan_profile(str(tmp_path), TrainingOptions(profile_steps=2), 0, traces)
        profile.set_params({"steps": 4})
        profile.set_model(types.SimpleNamespace(steps_per_execution=1))
        profile.on_epoch_begin(5)
        profile.on_train_batch_begin(0)
        profile.on_train_batch_end(0)
        profile.on_train_batch_begin(1)
        raise ZeroDivisionError
    assert len(find_traces(str(tmp_path))) == 1
