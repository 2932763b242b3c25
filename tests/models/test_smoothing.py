"""Smoothed losses equal those of labels that were spread by hand."""

import keras
import numpy as np
import pytest

from image_pipeline.components.models.compiling import SmoothedLoss, compile_model
from image_pipeline.components.models.model import binary_cross_entropy, cross_entropy
from image_pipeline.components.models.options import TrainingOptions

pytestmark = pytest.mark.unit

PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], np.float32)


def _by_hand(shares):
    return -(shares * np.log(PROBABILITIES)).sum(axis=1)


@pytest.mark.parametrize("ids", [[0, 1], [[0], [1]]])
def test_class_ids(ids):
    shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    loss = SmoothedLoss(cross_entropy, 0.3)(np.array(ids), PROBABILITIES)
    np.testing.assert_allclose(loss, _by_hand(shares), rtol=1e-5)


def test_shares_of_mixed_images():
    shares = np.array([[0.5, 0.5, 0], [0, 0, 1]], np.float32)
    loss = SmoothedLoss(cross_entropy, 0.3)(shares, PROBABILITIES)
    np.testing.assert_allclose(loss, _by_hand(0.7 * shares + 0.1), rtol=1e-5)


def test_tags():
    tags = np.array([[1, 0, 0], [1, 0.5, 1]], np.float32)
    loss = SmoothedLoss(binary_cross_entropy, 0.2)(tags, PROBABILITIES)
    spread = 0.8 * tags + 0.1
    by_hand = spread * np.log(PROBABILITIES) + (1 - spread) * np.log(1 - PROBABILITIES)
    np.testing.assert_allclose(loss, -by_hand, rtol=1e-4)


def test_records_without_a_class_stay_out_of_the_mean():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Activation("linear")])
    model.compile(loss=SmoothedLoss(cross_entropy, 0.3))
    whole = model.compute_loss(None, np.array([0, -1]), PROBABILITIES)
    first = model.compute_loss(None, np.array([0]), PROBABILITIES[:1])
    np.testing.assert_allclose(whole, first, rtol=1e-6)


def test_a_single_class_is_left_alone():
    ones = np.ones([2, 1], np.float32)
    assert np.array(SmoothedLoss(cross_entropy, 0.3)(np.zeros(2, int), ones)).tolist() == [0, 0]


def test_nothing_is_spread():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Activation("linear")])
    compile_model(model, cross_entropy, None, TrainingOptions())
    assert model.loss is cross_entropy
    compile_model(model, cross_entropy, None, TrainingOptions(label_smoothing=0.1))
    assert model.loss.__name__ == "cross_entropy"
