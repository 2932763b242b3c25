"""The default model for boxes: any size, any policy, any number of replicas; saved and loaded."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.models.box_loss import make_points
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
