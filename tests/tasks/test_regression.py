"""Values as a task: network, answers and bounds."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.regression import REGRESSION
from image_pipeline.components.tasks.signatures import VALUE

pytestmark = pytest.mark.unit


@pytest.mark.e2e
def test_the_default_network_gives_one_unbounded_number_and_learns_it():
    keras.utils.set_random_seed(0)
    model = find_builder("small", "value")((8, 8, 3), 1, TrainingOptions(learning_rate=0.02))
    assert model.output_shape == (None, 1)
    generator = np.random.default_rng(0)
    values = generator.normal(0, 2, 64).astype(np.float32)
    images = (
        generator.normal(0, 0.1, (64, 8, 8, 3)).astype(np.float32) + values[:, None, None, None]
    )
    history = model.fit(images, values, epochs=10, batch_size=16, verbose=0).history
    assert {"loss", "mean_squared_error", "mean_absolute_error"} == history.keys()
    assert history["loss"][-1] < 0.3 * np.var(values)


def test_the_loss_is_the_mean_squared_error_of_values_without_a_second_dimension():
    model = find_builder("small", "value")((8, 8, 3), 1, TrainingOptions())
    values, predicted = np.array([1.0, 2, 4], np.float32), np.array([[1.5], [2], [1]], np.float32)
    loss = model.compute_loss(None, tf.constant(values), tf.constant(predicted))
    assert float(loss) == pytest.approx((0.25 + 0 + 9) / 3, rel=1e-6)


def test_answers_are_numbers_and_0_where_no_image_is():
    outputs, valid = tf.constant([[1.5], [-2.0]]), tf.constant([True, False])
    answers = REGRESSION.answer_files(outputs, valid, tf.constant([VALUE]))
    assert answers[VALUE].numpy().tolist() == [1.5, 0.0]
    assert REGRESSION.answer_records(outputs)[VALUE].numpy().tolist() == [1.5, -2.0]
