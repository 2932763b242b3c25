"""Values as a task: network, answers and bounds."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.value_model import build_model
from image_pipeline.components.tasks.choose_task import choose_task, find_task
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.regression import REGRESSION
from image_pipeline.components.tasks.signatures import VALUE
from tests import graphs

pytestmark = pytest.mark.unit


def test_the_task_is_chosen_by_the_label_s_type(tmp_path):
    assert choose_task(IngestOptions(column_types={"label": "float"})) is REGRESSION
    assert choose_task(IngestOptions(column_types={"label": "string"})) is not REGRESSION
    graphs.write_analysis(tmp_path, label="image/value")
    assert find_task(str(tmp_path)) is REGRESSION


@pytest.mark.e2e
def test_the_default_network_gives_one_unbounded_number_and_learns_it():
    keras.utils.set_random_seed(0)
    model = build_model((8, 8, 3), 1, TrainingOptions(learning_rate=0.02))
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
    model = build_model((8, 8, 3), 1, TrainingOptions())
    values, predicted = np.array([1.0, 2, 4], np.float32), np.array([[1.5], [2], [1]], np.float32)
    loss = model.compute_loss(None, tf.constant(values), tf.constant(predicted))
    assert float(loss) == pytest.approx((0.25 + 0 + 9) / 3, rel=1e-6)


def test_answers_are_numbers_and_0_where_no_image_is():
    outputs, valid = tf.constant([[1.5], [-2.0]]), tf.constant([True, False])
    answers = REGRESSION.answer_files(outputs, valid, tf.constant([VALUE]))
    assert answers[VALUE].numpy().tolist() == [1.5, 0.0]
    assert REGRESSION.answer_records(outputs)[VALUE].numpy().tolist() == [1.5, -2.0]


def test_weights_of_classes_are_refused():
    with pytest.raises(UserError, match="but the labels are numbers"):
        REGRESSION.check_options(FeedingOptions(), TrainingOptions(class_weights="balanced"))


def test_smoothed_labels_are_refused():
    with pytest.raises(UserError, match=r"label_smoothing=0.1 .* but the labels are numbers"):
        REGRESSION.check_options(FeedingOptions(), TrainingOptions(label_smoothing=0.1))


@pytest.mark.parametrize("most", [None, 0.25])
def test_evaluation_bounds_the_mean_squared_error(most):
    config = evaluation_config(EvaluationOptions(max_mean_squared_error=most), REGRESSION)
    judged, further, _ = config.metrics_specs[0].metrics
    assert (judged.class_name, further.class_name) == ("MeanSquaredError", "MeanAbsoluteError")
    (bound,) = judged.per_slice_thresholds
    assert bound.threshold.value_threshold.HasField("upper_bound") == (most is not None)
    assert bound.threshold.value_threshold.upper_bound.value == (most or 0)
