import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.training.epoch_clock import EpochClock, estimate_wait_s
from image_pipeline.components.training.history import History
from image_pipeline.components.training.steps_per_execution import WholeEpochs
from tests.tiers import wide

pytestmark = pytest.mark.unit

# Far more than a step or a batch takes by itself, on a busy machine too.
_SLOW_S = 0.1


def _linear_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    return model


def _sleeping(seconds):
    def sleep(value):
        time.sleep(seconds)
        return value

    def call(value):
        slept = tf.numpy_function(sleep, [value], value.dtype)
        return tf.ensure_shape(slept, value.shape)

    return call


def _make_batches(input_s):
    """Batches of one record, each of which takes its time; the next two are made meanwhile."""
    sleep = _sleeping(input_s)

    def make(number):
        images = tf.fill([1, 2], tf.cast(sleep(number), tf.float32))
        return images, tf.zeros([1])

    return tf.data.Dataset.range(100).map(make).prefetch(2)


def _train(input_s, step_s, steps_per_execution):
    sleep = _sleeping(step_s)

    class SlowModel(keras.Sequential):
        def train_step(self, data):
            return super().train_step((sleep(data[0]), data[1]))

    model = SlowModel([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=steps_per_execution)
    clock = EpochClock(model)
    model.fit(
        clock.watch(_make_batches(input_s)),
        epochs=2,
        steps_per_epoch=10,
        verbose=0,
        callbacks=[WholeEpochs(), clock],
    )
    return clock.history(steps_per_epoch=10)


@pytest.mark.e2e
@pytest.mark.parametrize("steps_per_execution", [wide(1), 5])
def test_the_loop_waits_for_a_slow_input_and_not_in_a_slow_step(steps_per_execution):
    shares = []
    for input_s, step_s in [(_SLOW_S, 0.0), (0.0, _SLOW_S)]:
        ended = _train(input_s, step_s, steps_per_execution)
        waits, loops = ended.input_wait_seconds_per_epoch, ended.training_seconds_per_epoch
        for wait_s, loop_s, epoch_s in zip(waits, loops, ended.seconds_per_epoch, strict=True):
            assert 0 <= wait_s <= loop_s <= epoch_s
        shares.append(waits[1] / loops[1])
    assert shares[0] > 0.5 > shares[1]


@pytest.mark.parametrize(
    ("asked", "first", "last", "ended", "steps", "waited"),
    [
        # Its first call compiles: only the first batch is known to have been waited for.
        (10.0, 12.0, 14.0, 15.0, 1, 2.0),
        # Four batches, 3 s apart, and steps of 1 s: three times 2 s of waiting, after 1 s.
        (10.0, 11.0, 20.0, 21.0, 4, 7.0),
        # Steps of 2 s: the last batch came early, while the last but one was worked on.
        (10.0, 10.0, 14.0, 18.0, 4, 0.0),
        # The first one was waited for all the same.
        (7.0, 10.0, 14.0, 18.0, 4, 3.0),
        # The system's clock was put back.
        (10.0, 9.0, 9.0, 9.5, 1, 0.0),
    ],
)
def test_what_a_call_waited(asked, first, last, ended, steps, waited):
    assert estimate_wait_s(asked, first, last, ended, steps) == waited


def test_the_batches_are_the_same():
    model = _linear_model()
    watched = EpochClock(model).watch(_make_batches(0.0))
    assert watched.element_spec == _make_batches(0.0).element_spec
    assert int(watched.cardinality()) == 100
    for got, expected in zip(watched, _make_batches(0.0), strict=True):
        np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.e2e
def test_with_several_devices_no_waiting_is_measured():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = _linear_model()
    clock = EpochClock(model)
    batches = _make_batches(0.0)
    assert clock.watch(batches) is batches
    model.fit(batches, epochs=1, steps_per_epoch=4, verbose=0, callbacks=[WholeEpochs(), clock])
    ended = clock.history(steps_per_epoch=4)
    assert ended.input_wait_seconds_per_epoch is None
    assert len(ended.training_seconds_per_epoch) == ended.epochs == 1


@pytest.mark.parametrize("waits", [[0.5], None], ids=["measured", "several devices"])
def test_the_epochs_before_an_interruption_come_first(waits):
    before = History(
        metrics={"loss": [1.5], "val_loss": [None]},
        steps_per_epoch=4,
        seconds_per_epoch=[3.0],
        training_seconds_per_epoch=[2.0],
        input_wait_seconds_per_epoch=waits,
    )
    clock = EpochClock(_linear_model())
    assert clock.history(4).epochs == 0 and clock.history(4).metrics == {}
    clock.go_on(before)
    assert clock.history(4) == before
    clock.on_epoch_begin(1)
    clock.on_epoch_end(1, {"loss": 0.5, "more": 2})
    both = clock.history(4)
    assert both.metrics == {"loss": [1.5, 0.5], "val_loss": [None, None], "more": [None, 2.0]}
    assert (both.seconds_per_epoch[0], both.epochs, both.steps) == (3.0, 2, 8)
    assert both.input_wait_seconds_per_epoch == (None if waits is None else [0.5, 0.0])
