"""Tags and values as tasks: networks, losses, weights, scores and answers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_model_analysis.metrics import metric_types

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation import answers, counted_metrics, tag_metrics
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.model import binary_cross_entropy
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.image_tasks import REGRESSION, TAGGING
from image_pipeline.components.tasks.signatures import CLASSES, PROBABILITIES, TAGS, VALUE
from image_pipeline.components.training.unknown import check_tag_loss, weigh_records

pytestmark = pytest.mark.unit

LABELS = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1], [1, 0, 0]], np.float32)
PREDICTED = np.array(
    [[0.9, 0.2, 0.4], [0.6, 0.1, 0.5], [0.3, 0.8, 0.7], [0.55, 0.1, 0.2]], np.float32
)


def _cross_entropies(weights):
    own = -(LABELS * np.log(PREDICTED) * weights + (1 - LABELS) * np.log(1 - PREDICTED))
    return own.astype(np.float64)


def test_weights_multiply_the_loss_of_the_tags_that_a_record_has():
    weights = np.array([2.0, 3.0, 0.5], np.float32)
    batches = tf.data.Dataset.from_tensors((tf.zeros([4, 1]), tf.constant(LABELS)))
    ((_, labels, of_each),) = weigh_records(batches, weights, of_tags=True)
    np.testing.assert_array_equal(labels, LABELS)
    np.testing.assert_array_equal(of_each, np.where(LABELS == 1, weights, 1))
    model = keras.Sequential([keras.layers.Input([3]), keras.layers.Identity()])
    model.compile(loss=binary_cross_entropy)
    loss = model.compute_loss(None, labels, tf.constant(PREDICTED), of_each)
    assert float(loss) == pytest.approx(_cross_entropies(weights).mean(), rel=1e-5)


def test_a_loss_of_whole_records_cannot_be_weighed_tag_by_tag():
    model = find_builder("small", "tags")((8, 8, 3), 4, TrainingOptions())
    check_tag_loss(model, 4, "own.model")
    model.compile(loss="binary_crossentropy")
    with pytest.raises(UserError, match=r"training.model=own.model must be \[batch, tags\]"):
        check_tag_loss(model, 4, "own.model")


@pytest.mark.e2e
def test_the_default_network_gives_a_probability_of_each_tag_and_learns_one():
    keras.utils.set_random_seed(0)
    model = find_builder("small", "tags")((8, 8, 3), 2, TrainingOptions(learning_rate=0.02))
    assert model.output_shape == (None, 2)
    generator = np.random.default_rng(0)
    tags = generator.integers(0, 2, (64, 2)).astype(np.float32)
    images = generator.normal(0, 0.1, (64, 8, 8, 3)).astype(np.float32)
    images[..., :2] += tags[:, None, None]
    history = model.fit(images, tags, epochs=8, batch_size=16, verbose=0).history
    assert {"loss", "f1", "mean_average_precision"} == history.keys()
    assert history["f1"][-1] > 0.95 and history["loss"][-1] < history["loss"][0] / 3


def test_tags_are_counted_by_hand():
    counts = sum(map(answers.count_tags, LABELS, PREDICTED))
    np.testing.assert_array_equal(counts, [[2, 1, 1], [3, 1, 1], [2, 1, 2]])
    np.testing.assert_array_equal(answers.count_tags(LABELS, PREDICTED), counts)
    scores = tag_metrics.score_tags(counts)
    np.testing.assert_allclose(scores, [[2 / 3, 1, 1], [1, 1, 0.5], [0.8, 1, 2 / 3]])


def _combine(name="f1", model=""):
    key = metric_types.MetricKey(name=name, model_name=model)
    return counted_metrics._CountTags(key)


def _score(rows, model=""):
    combiner = _combine(model=model)
    parts = []
    for labels, predicted in rows:
        of_model = {model: {PROBABILITIES: predicted}} if model else predicted
        element = metric_types.StandardMetricInputs({"labels": labels, "predictions": of_model})
        parts.append(combiner.add_input(combiner.create_accumulator(), element))
    found = combiner.extract_output(combiner.merge_accumulators(parts))
    return {(key.name, key.sub_key and key.sub_key.class_id): value for key, value in found.items()}


@pytest.mark.parametrize("model", ["", "candidate"])
def test_tfma_gets_the_scores_of_all_tags_and_of_each(model):
    scores = _score(zip(LABELS, PREDICTED, strict=True), model)
    assert scores == {
        ("precision", None): pytest.approx(0.8),
        ("recall", None): pytest.approx(0.8),
        ("f1", None): pytest.approx(0.8),
        ("mean_f1", None): pytest.approx((0.8 + 1 + 2 / 3) / 3),
        **{("precision", id_): pytest.approx(each) for id_, each in enumerate([2 / 3, 1, 1])},
        **{("recall", id_): pytest.approx(each) for id_, each in enumerate([1, 1, 0.5])},
        **{("f1", id_): pytest.approx(each) for id_, each in enumerate([0.8, 1, 2 / 3])},
    }


def test_tags_that_occur_nowhere_have_no_score():
    nothing = np.zeros(2, np.float32)
    scores = _score([(nothing, nothing)])
    assert scores.keys() == {("f1", None), ("precision", None), ("recall", None), ("mean_f1", None)}
    assert all(np.isnan(score) for score in scores.values())


def test_likely_tags_are_answered_by_name():
    names, valid = tf.constant(["a", "b", "c"]), tf.constant([True, True, False, True])
    answers = TAGGING.answer_files(tf.constant(PREDICTED), valid, names)
    assert answers[TAGS].numpy().tolist() == [
        [b"a", b"", b""],
        [b"a", b"", b""],  # 0.5 is not likelier than 0.5
        [b"", b"", b""],
        [b"a", b"", b""],
    ]
    assert answers[CLASSES].numpy().tolist() == [[b"a", b"b", b"c"]] * 4
    np.testing.assert_array_equal(answers[PROBABILITIES][2], [0, 0, 0])


def test_a_sigmoid_is_final_and_logits_are_not():
    assert TAGGING.are_final(np.array([[0.5, 0.2]]), 1e-3)
    assert not TAGGING.are_final(np.array([[0.0, 0.2]]), 1e-3)
    assert not TAGGING.are_final(np.array([[1.5, 0.2]]), 1e-3)
    np.testing.assert_allclose(TAGGING.finish(tf.constant([[0.0]])), [[0.5]])


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
