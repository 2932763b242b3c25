"""The default model for boxes: any size, any policy, any number of replicas; saved and loaded."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.models.box_loss import (
    RADIUS,
    assign_boxes,
    focal_loss,
    giou_loss,
    make_points,
)
from image_pipeline.components.models.detector import PlaceBoxes, build_model
from image_pipeline.components.models.options import TrainingOptions
from tests.training.box_data import CLASSES, MOST, draw_boxes

pytestmark = pytest.mark.unit

SIZE = (48, 64, 3)


def draw_batch(count, has_boxes=True):
    """Images and labels as `input_fn` gives them."""
    images = np.zeros((count, *SIZE), np.float32)
    boxes = np.zeros((count, MOST, 4), np.float32)
    labels = np.full((count, MOST), -1, np.int32)
    counts = np.zeros(count, np.int32)
    for row in range(count):
        image, drawn = draw_boxes(row)
        images[row] = image / 128 - 0.5
        for number, each in enumerate(drawn if has_boxes else []):
            left, top, wide, high = each["bbox"]
            sides = np.array([top, left, top + high, left + wide])
            boxes[row, number] = sides / [*SIZE[:2], *SIZE[:2]]
            labels[row, number] = CLASSES.index(each["category"])
            counts[row] += 1
    return images, {"boxes": boxes, "labels": labels, "count": counts}


def build(size=SIZE, **options):
    keras.utils.set_random_seed(0)
    model = build_model(size, len(CLASSES), TrainingOptions(learning_rate=0.003))
    if options:
        model.compile(model.optimizer, loss=model.loss, **options)
    return model


@pytest.mark.parametrize("size", [(1, 1, 3), (9, 7, 1), (33, 47, 3), (64, 96, 3), (224, 224, 3)])
def test_images_of_any_size_have_a_candidate_at_each_point(size):
    outputs = build(size)(np.zeros((2, *size), np.float32))
    points = len(make_points(*size[:2], 4))
    assert points == -(-size[0] // 4) * -(-size[1] // 4)
    assert {key: tuple(value.shape) for key, value in outputs.items()} == {
        "boxes": (2, points, 4),
        "scores": (2, points, 2),
    }
    assert np.isfinite(outputs["boxes"]).all()
    np.testing.assert_allclose(outputs["scores"], 0.01, atol=0.005)


def test_boxes_are_placed_around_their_points():
    layer = PlaceBoxes((8, 16), 4)
    places = np.zeros((1, 2, 4, 4), np.float32)
    places[0, 1, 2] = [0.5, -0.25, np.log(0.5), np.log(0.25)]
    found = layer(places).numpy()[0] * [8, 16, 8, 16]
    # 4 steps of 4 px around (2, 2); and 8 x 4 px around (6 + 2, 10 - 1).
    np.testing.assert_allclose(found[0], [-6, -6, 10, 10], rtol=1e-5)
    np.testing.assert_allclose(found[6], [4, 7, 12, 11], rtol=1e-5)
    again = PlaceBoxes.from_config(layer.get_config())
    np.testing.assert_array_equal(again(places), layer(places))


@pytest.mark.e2e
@pytest.mark.wide
def test_a_batch_is_learned():
    images, labels = draw_batch(8)
    model = build()
    losses = model.fit(images, labels, batch_size=8, epochs=25, verbose=0).history
    assert set(losses) == {"loss", "boxes_loss", "scores_loss"}
    assert losses["loss"][-1] < losses["loss"][0] / 4
    total = np.add(losses["boxes_loss"], losses["scores_loss"])
    np.testing.assert_allclose(losses["loss"], total, rtol=1e-5)


def gradients(model, images, labels):
    with tf.GradientTape() as tape:
        loss = model.compute_loss(images, labels, model(images, training=True))
    return float(loss), tape.gradient(loss, model.trainable_weights)


def test_images_without_boxes_have_finite_losses_and_gradients():
    model = build()
    loss, slopes = gradients(model, *draw_batch(4, has_boxes=False))
    assert np.isfinite(loss) and loss > 0
    given = [each for each in slopes if each is not None]
    assert given and all(np.isfinite(each).all() for each in given)


def test_padding_changes_nothing():
    images, labels = draw_batch(4)
    model = build()
    padding = {"boxes": [[0, 0], [0, 5], [0, 0]], "labels": [[0, 0], [0, 5]], "count": [[0, 0]]}
    padded = {key: np.pad(value, padding[key]) for key, value in labels.items()}
    outputs = model(images)
    expected = model.compute_loss(images, labels, outputs)
    assert float(model.compute_loss(images, padded, outputs)) == float(expected)


@pytest.mark.wide
@pytest.mark.e2e
@pytest.mark.parametrize(
    "options", [{"jit_compile": True}, {"steps_per_execution": 2}, {"run_eagerly": True}], ids=str
)
def test_it_is_compiled_as_keras_allows(options):
    images, labels = draw_batch(4)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(2)
    expected = build(jit_compile=False).fit(data, verbose=0).history
    found = build(**options).fit(data, verbose=0).history
    assert found == {key: pytest.approx(value, rel=1e-3) for key, value in expected.items()}


@pytest.mark.e2e
@pytest.mark.wide
def test_a_saved_model_goes_on_as_before(tmp_path):
    images, labels = draw_batch(4)
    model = build()
    model.fit(images, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for key, value in model.predict(images, verbose=0).items():
        np.testing.assert_array_equal(loaded.predict(images, verbose=0)[key], value)
    ours, theirs = (each.fit(images, labels, verbose=0).history for each in (model, loaded))
    assert theirs == {key: pytest.approx(value, rel=1e-5) for key, value in ours.items()}


@pytest.mark.wide
@pytest.mark.e2e
def test_halves_are_used_within_only():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = build()
        images, labels = draw_batch(2)
        outputs = model(images)
        assert {value.dtype for value in outputs.values()} == {tf.float32}
        assert np.isfinite(model.fit(images, labels, verbose=0).history["loss"]).all()
    finally:
        keras.config.set_dtype_policy("float32")


REPLICAS = """
import json
import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.models.test_detector import build, draw_batch

images, labels = draw_batch(8)
labels["count"][5:] = 0  # the second replica has one box only
data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(8)

def train():
    model = build(jit_compile=False)
    for layer in model.layers:  # which else learn from the images of one replica each
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
    model.compile("sgd", loss=model.loss, jit_compile=False)
    losses = model.fit(data, epochs=2, shuffle=False, verbose=0).history
    return losses | {"weights": [float(np.abs(each).sum()) for each in model.get_weights()]}

one = train()
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    print(json.dumps([strategy.num_replicas_in_sync, one, train()]))
"""


@pytest.mark.e2e
@pytest.mark.wide
def test_two_replicas_learn_as_one_does():
    command = [sys.executable, "-c", REPLICAS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    replicas, one, two = json.loads(done.stdout.splitlines()[-1])
    assert replicas == 2
    assert two == {key: pytest.approx(value, rel=1e-4) for key, value in one.items()}


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
