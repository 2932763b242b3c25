"""Random steps, transform graph, type and layout, as one compiled function or not."""

import logging

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.components import contract
from image_pipeline.components.augment import geometry
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import FlipHorizontal
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.finishing import make_finish
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.reader import KEY, MIRRORED
from image_pipeline.components.views.options import ViewOptions
from tests import graphs

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
STEPS = ("flip_horizontal", {"op": "cutout", "size_px": 4}, {"op": "color_jitter", "hue": 0.2})


def draw_batch(count=6):
    images = np.random.default_rng(5).integers(0, 256, (count, 8, 8, 3), np.uint8)
    return {
        contract.IMAGE_INPUT: tf.constant(images),
        contract.LABEL_INPUT: tf.constant((["cat", "dog", "zebra"] * count)[:count]),
        KEY: tf.range(count, dtype=tf.int64).numpy().astype(np.uint64) * np.uint64(77),
        MIRRORED: tf.constant([False, True] * (count // 2) + [False] * (count % 2)),
    }


def finish(batch=None, training=True, graph=True, **feeding):
    transform = TransformGraph(graphs.shared_graph_dir()) if graph else None
    options = FeedingOptions(**{"augment": STEPS, **feeding})
    images, labels = make_finish(transform, options, VIEW, training)(batch or draw_batch())
    return images.numpy(), labels.numpy()


@pytest.mark.parametrize("training", [True, False])
def test_compiled_or_not_it_gives_the_same(training):
    images, labels = finish(training=training)
    plain_images, plain_labels = finish(training=training, compiled=False)
    assert (images.shape, images.dtype, labels.dtype) == ((6, 8, 8, 3), np.float32, np.int64)
    np.testing.assert_array_equal(images, plain_images)
    np.testing.assert_array_equal(labels, plain_labels)
    assert labels.tolist() == [0, 1, -1, 0, 1, -1]


def test_only_training_takes_random_steps():
    batch = draw_batch()
    # The shared graph divides by 255.
    expected = batch[contract.IMAGE_INPUT].numpy() / np.float32(255)
    np.testing.assert_allclose(finish(batch, training=False)[0], expected, rtol=1e-6)
    assert not np.allclose(finish(batch)[0], expected)
    np.testing.assert_allclose(finish(batch, augment=[])[0], expected, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "least_bits"), [("float16", 11), ("bfloat16", 8)])
def test_half_precision_is_the_rounded_float32(dtype, least_bits):
    images, _ = finish()
    half, _ = finish(dtype=dtype)
    assert half.dtype == tf.dtypes.as_dtype(dtype).as_numpy_dtype
    np.testing.assert_array_equal(half, tf.cast(images, dtype))
    np.testing.assert_allclose(half.astype(np.float32), images, rtol=2.0**-least_bits)


def test_uint8_leaves_the_pixels_to_the_model():
    batch = draw_batch()
    images, labels = finish(batch, dtype="uint8", augment=[])
    np.testing.assert_array_equal(images, batch[contract.IMAGE_INPUT])
    assert images.dtype == np.uint8 and labels.tolist() == [0, 1, -1, 0, 1, -1]
    augmented, _ = finish(batch, dtype="uint8")
    as_model = TransformGraph(graphs.shared_graph_dir()).transform_images(augmented)
    np.testing.assert_array_equal(as_model, finish(batch)[0])


@pytest.mark.parametrize(
    ("compiled", "kind", "rule"),
    [
        (True, UserError, r"must give uint8 images of the shape that it got, .*keep how many"),
        (False, tf.errors.InvalidArgumentError, "must give as many images as it got"),
    ],
)
def test_a_step_that_loses_images_is_an_error(compiled, kind, rule):
    feeding = FeedingOptions(augment=[f"{__name__}.lose_some"], compiled=compiled)
    data = tf.data.Dataset.from_tensor_slices(draw_batch()).batch(6)
    with pytest.raises(kind, match=rule):
        list(data.map(make_finish(None, feeding, VIEW, True)))


def lose_some(images, keys):
    return images[:2]


def test_channels_come_first_where_asked():
    np.testing.assert_array_equal(finish(layout="NCHW")[0], finish()[0].transpose(0, 3, 1, 2))
    without = {"graph": False, "training": False}
    channels_first = finish(layout="NCHW", **without)[0]
    np.testing.assert_array_equal(channels_first, finish(**without)[0].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("step", ["mixup", "cutmix"])
def test_mixed_images_have_mixed_labels(step):
    _, labels = finish(augment=[step])
    assert (labels.shape, labels.dtype) == ((6, 2), np.float32)
    # Pairs are (cat, dog), (zebra, cat), (dog, zebra), and the graph knows no zebra.
    assert (labels[:2] > 0).all()
    np.testing.assert_allclose(labels[:2].sum(axis=1), 1, rtol=1e-6)
    assert (labels[2:4, 1] == 0).all() and (labels[4:, 0] == 0).all()
    _, plain = finish(augment=[step], training=False)
    assert plain.tolist() == [[1, 0], [0, 1], [0, 0]] * 2


def test_mixing_needs_the_numbers_of_the_classes():
    with pytest.raises(UserError, match=r"mixup and cutmix need the transform graph"):
        finish(graph=False, augment=["mixup"])


def test_without_a_graph_pixels_and_names_stay():
    batch = draw_batch()
    images, labels = finish(batch, graph=False, training=False)
    np.testing.assert_array_equal(images, batch[contract.IMAGE_INPUT])
    assert labels.tolist() == [b"cat", b"dog", b"zebra"] * 2
    assert finish(batch, graph=False)[0].dtype == np.uint8


def test_mirror_images_differ_in_nothing_else_and_are_not_flipped_by_chance():
    batch = draw_batch()
    twice = batch | {
        name: tf.repeat(batch[name], 2, axis=0) for name in (contract.IMAGE_INPUT, KEY)
    }
    twice[contract.LABEL_INPUT] = tf.repeat(batch[contract.LABEL_INPUT], 2)
    twice[MIRRORED] = tf.constant([False, True] * 6)
    images, _ = finish(twice, many_views={"mirror": True})
    np.testing.assert_array_equal(images[1::2], images[::2, :, ::-1])
    unflipped, _ = finish(batch, augment=[FlipHorizontal(probability=0), *STEPS[1:]])
    np.testing.assert_array_equal(images[::2], unflipped)


def pass_through_strings(images, keys):
    """A step that XLA does not know."""
    texts = tf.strings.as_string(tf.cast(images, tf.int32))
    numbers = tf.strings.to_number(texts, tf.int32)
    return geometry.mirror(Batch(tf.cast(numbers, tf.uint8)), keys % 2 == 0).images


def test_a_step_that_cannot_be_compiled_is_taken_all_the_same(caplog):
    steps = [f"{__name__}.pass_through_strings"]
    with caplog.at_level(logging.WARNING):
        images, _ = finish(augment=steps)
    assert "A random step is not compiled" in caplog.text
    np.testing.assert_array_equal(images, finish(augment=steps, compiled=False)[0])


def pixels_through_strings(inputs):
    texts = tf.strings.as_string(tf.cast(inputs[contract.IMAGE_INPUT], tf.int32))
    label = tft.compute_and_apply_vocabulary(
        inputs[contract.LABEL_INPUT], default_value=-1, vocab_filename=contract.LABEL_VOCABULARY
    )
    return {contract.IMAGE_OUTPUT: tf.strings.to_number(texts), contract.LABEL_OUTPUT: label}


def test_a_graph_that_cannot_be_compiled_is_applied_all_the_same(tmp_path, caplog):
    folder = graphs.write_graph(tmp_path, (8, 8, 3), preprocessing_fn=pixels_through_strings)
    batch, options = draw_batch(), FeedingOptions(augment=STEPS)
    with caplog.at_level(logging.WARNING):
        images, _ = make_finish(TransformGraph(folder), options, VIEW, True)(batch)
    assert "The transform graph is not compiled" in caplog.text
    assert "A random step" not in caplog.text
    np.testing.assert_array_equal(images, finish(batch, dtype="uint8")[0].astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_data_sets_share_what_is_compiled(monkeypatch, dtype):
    finish(dtype=dtype)
    compiled = []
    monkeypatch.setattr(tf, "function", lambda *_, **options: compiled.append(options))
    transform = TransformGraph(graphs.shared_graph_dir())
    options = FeedingOptions(augment=STEPS, dtype=dtype)
    make_finish(transform, options, VIEW, True)
    assert compiled == []


def test_labels_have_the_batchs_static_shape():
    for steps, shape in ((STEPS, [6]), ((*STEPS, "mixup"), [6, 2])):
        transform = TransformGraph(graphs.shared_graph_dir())
        made = make_finish(transform, FeedingOptions(augment=steps), VIEW, True)
        images, labels = tf.data.Dataset.from_tensors(draw_batch()).map(made).element_spec
        assert (images.shape.as_list(), labels.shape.as_list()) == ([6, 8, 8, 3], shape)
