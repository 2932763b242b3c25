"""Several steps in one call of the model change nothing but the calls."""

import keras
import numpy as np
import pytest
import tensorflow as tf

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
