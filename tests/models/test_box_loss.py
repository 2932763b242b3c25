"""What points are asked for, and the losses, against values by hand."""

import keras
import numpy as np
import pytest

from image_pipeline.components.models.box_loss import (
    RADIUS,
    assign_boxes,
    focal_loss,
    giou_loss,
    make_points,
)

pytestmark = pytest.mark.unit


def assign(boxes, labels, size=(32, 64), stride=4, classes=3, most=4):
    """The targets of one image whose boxes are in pixels, as arrays [rows, columns, …]."""
    height, width = size
    padded = np.zeros((1, most, 4), np.float32)
    ids = np.full((1, most), -1, np.int32)
    for number, box in enumerate(boxes):
        padded[0, number] = np.array(box) / [height, width, height, width]
        ids[0, number] = labels[number]
    told = {"boxes": padded, "labels": ids, "count": np.array([len(boxes)], np.int32)}
    points = make_points(height, width, stride)
    found = assign_boxes(told, points, (stride / height, stride / width), classes)
    shape = -(-height // stride), -(-width // stride)
    return {key: np.reshape(value, (*shape, -1)) for key, value in found.items()}


def test_points_are_in_the_middle_of_each_step():
    points = make_points(6, 8, 4) * [6, 8]
    np.testing.assert_allclose(points, [[2, 2], [2, 6], [6, 2], [6, 6]], rtol=1e-6)


def test_the_nine_points_around_a_centre_are_asked_for_its_box():
    found = assign([[2, 20, 18, 40]], [1])  # its centre is (10, 30), a point: row 2, column 7
    is_asked = np.zeros((8, 16), bool)
    is_asked[1:4, 6:9] = True
    np.testing.assert_array_equal(found["scores"].any(axis=-1), is_asked)
    np.testing.assert_array_equal(found["scores"][is_asked], [[0, 1, 0]] * 9)
    of_image = [2 / 32, 20 / 64, 18 / 32, 40 / 64]
    np.testing.assert_allclose(found["boxes"][is_asked], [of_image] * 9)
    assert not found["boxes"][~is_asked].any()


@pytest.mark.parametrize("place", np.random.default_rng(0).uniform(0, [31, 63], (20, 2)).tolist())
def test_even_the_smallest_box_is_asked_for_somewhere(place):
    top, left = place
    found = assign([[top, left, top + 0.5, left + 0.5]], [2])
    assert found["scores"][..., 2].sum() >= (RADIUS * 2 - 1) ** 2 / 4


def test_between_two_boxes_the_nearer_centre_decides():
    # Centres at columns 3 and 4.5 of the grid; the larger one comes first.
    found = assign([[0, 0, 20, 28], [6, 18, 14, 22]], [0, 1])
    row = found["scores"][2]
    np.testing.assert_array_equal(row[:, 0], [0, 0, 1, 1, *[0] * 12])
    np.testing.assert_array_equal(row[:, 1], [0, 0, 0, 0, 1, 1, 1, *[0] * 9])


def test_an_image_without_boxes_asks_for_none():
    found = assign([], [])
    assert not found["scores"].any() and not found["boxes"].any()
    assert not giou_loss(found["boxes"], found["boxes"] + 1).numpy().any()


def test_the_focal_loss_is_that_of_the_paper():
    asked = np.array([[[1, 0], [1, 0], [0, 0]], [[0, 0]] * 3], np.float32)
    scores = np.array([[[0.9, 0.1], [0.2, 0.5], [0.3, 0.7]], [[0.4, 0.2]] * 3], np.float32)
    right = np.where(asked == 1, scores, 1 - scores).astype(np.float64)
    weight = np.where(asked == 1, 0.25, 0.75)
    losses = -weight * (1 - right) ** 2 * np.log(right)
    # By each image's own number of asked points, at least one.
    expected = losses.sum(axis=(1, 2)) / [2, 1]
    np.testing.assert_allclose(focal_loss(asked, scores), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("box", "loss"),
    [
        ([0.2, 0.2, 0.6, 0.6], 0),
        ([0.2, 0.2, 0.6, 0.4], 1 / 2),  # half of it, within it
        ([0.2, 0.6, 0.6, 1.0], 1),  # beside it
        ([0.6, 0.6, 1.0, 1.0], 1 + 1 / 2),  # at its corner: half of what encloses both is neither
        ([0.4, 0.4, 0.4, 0.4], 1),  # without area, within it
    ],
    ids=str,
)
def test_giou_by_hand(box, loss):
    asked = np.array([[[0.2, 0.2, 0.6, 0.6], [0, 0, 0, 0]]], np.float32)
    found = np.array([[box, [0.1, 0.1, 0.2, 0.2]]], np.float32)
    np.testing.assert_allclose(giou_loss(asked, found), [loss], atol=1e-6)


def test_giou_is_the_same_in_shares_and_in_pixels():
    draws = np.random.default_rng(0)
    starts = draws.uniform(0, 0.5, (2, 4, 5, 2))
    ends = starts + draws.uniform(0.1, 0.5, starts.shape)
    some, others = np.concatenate([starts, ends], axis=-1).astype(np.float32)
    pixels = np.array([48, 64, 48, 64], np.float32)
    expected = giou_loss(some * pixels, others * pixels)
    np.testing.assert_allclose(giou_loss(some, others), expected, rtol=1e-5)


def test_losses_are_saved_by_name():
    for loss in (focal_loss, giou_loss):
        name = keras.saving.get_registered_name(loss)
        assert keras.saving.get_registered_object(name) is loss
