import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models import unet
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.model import (
    MOST_BLOCKS,
    SMALLEST_MAP_PX,
    build_model,
    count_halvings,
    cross_entropy,
)
from image_pipeline.components.models.options import TrainingOptions

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 8, 3), (32, 20, 3), (224, 224, 3)])
def test_gives_probabilities_for_every_image_size(shape):
    model = build_model(shape, 5, TrainingOptions())
    probabilities = model(np.random.default_rng(0).random((2, *shape), np.float32)).numpy()
    assert (probabilities.shape, probabilities.dtype) == ((2, 5), np.float32)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("side", "blocks"), [(1, 1), (8, 1), (16, 2), (28, 2), (32, 3), (64, 4), (224, 5), (1024, 5)]
)
def test_larger_images_pass_more_blocks(side, blocks):
    assert count_halvings(side, SMALLEST_MAP_PX, MOST_BLOCKS, least=1) == blocks


def test_learning_rate_is_adams():
    model = build_model((8, 8, 1), 2, TrainingOptions(learning_rate=0.25))
    assert isinstance(model.optimizer, keras.optimizers.Adam)
    assert float(model.optimizer.learning_rate) == 0.25


def test_the_seed_decides_the_weights():
    def first_weights(seed):
        keras.utils.set_random_seed(seed)
        return build_model((8, 8, 1), 2, TrainingOptions()).get_weights()[0]

    np.testing.assert_array_equal(first_weights(1), first_weights(1))
    assert not np.array_equal(first_weights(1), first_weights(2))


def test_records_of_unknown_class_do_not_count_in_the_loss():
    model = build_model((8, 8, 1), 2, TrainingOptions())
    images = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    known = model.evaluate(images[:2], np.array([0, 1]), verbose=0)[0]
    with_unknown = model.evaluate(images, np.array([0, 1, -1]), verbose=0)[0]
    assert with_unknown == pytest.approx(known, rel=1e-5)


def test_shares_of_classes_are_labels_too():
    model = build_model((8, 8, 1), 3, TrainingOptions())
    images = np.random.default_rng(0).random((4, 8, 8, 1), np.float32)
    ids = np.array([0, 1, 2, 2])
    assert model.evaluate(images, np.eye(3)[ids], verbose=0) == pytest.approx(
        model.evaluate(images, ids, verbose=0), rel=1e-6
    )
    mixed = np.array([[0.75, 0.25, 0], [0, 0.5, 0.5], [0, 0, 1], [0, 0, 0]], np.float32)
    logs = np.log(model.predict(images, verbose=0))
    assert model.evaluate(images, mixed, verbose=0)[0] == pytest.approx(
        -(mixed * logs).sum(axis=1).mean(), rel=1e-4
    )


@pytest.mark.e2e
def test_learns_to_tell_dark_from_bright():
    keras.utils.set_random_seed(0)
    model = build_model((8, 8, 1), 2, TrainingOptions(learning_rate=1e-2))
    labels = np.arange(64) % 2
    noise = np.random.default_rng(0).random((64, 8, 8, 1), np.float32)
    images = noise * 0.2 + labels[:, None, None, None].astype(np.float32)
    model.fit(images, labels, epochs=10, batch_size=16, verbose=0)
    assert model.evaluate(images, labels, verbose=0)[1] == 1.0


@pytest.mark.parametrize(
    ("name", "head", "loss", "ids"),
    [
        ("small", "classes", cross_entropy, np.array([2, -1])),
        ("unet", "masks", unet.cross_entropy, np.stack([np.full((8, 8), id_) for id_ in (2, 255)])),
    ],
)
def test_what_a_model_holds_impossible_costs_as_much_as_its_logits_say(name, head, loss, ids):
    model = find_builder(name, head)((8, 8, 1), 3, TrainingOptions())
    model.layers[-1].bias.assign([60, 0, -60])
    losses = loss(ids, model(np.zeros((2, 8, 8, 1), np.float32)))
    assert set(np.unique(losses[0])) == {120} and not np.any(losses[1])
    np.testing.assert_array_equal(losses._keras_mask, np.broadcast_to(ids == 2, losses.shape))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A Sequential model of three classes that gives logits."""
    keras.utils.set_random_seed(3)
    layers = [
        keras.Input((None, None, 3)),
        keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(3),
    ]
    model = keras.Sequential(layers)
    path = str(tmp_path_factory.mktemp("saved") / "model.keras")
    model.save(path)
    return path, model


def _build(path, classes, shape=(8, 8, 3), head="classes"):
    return find_builder(path, head)(shape, classes, TrainingOptions(model=path))


def test_its_head_is_kept_where_it_fits(saved):
    path, theirs = saved
    images = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    probabilities = keras.ops.softmax(theirs(images))
    np.testing.assert_allclose(_build(path, 3)(images), probabilities, rtol=1e-5)


@pytest.mark.parametrize(("head", "classes"), [("classes", 5), ("tags", 4), ("value", 1)])
def test_its_head_is_replaced_for_other_labels(saved, head, classes):
    path, theirs = saved
    model = _build(path, classes, head=head)
    assert model.output_shape == (None, classes) and model.compiled
    np.testing.assert_array_equal(model.weights[0], theirs.weights[0])


def test_other_inputs_are_refused(saved):
    with pytest.raises(UserError, match=r"must take images \[batch, 8, 8, 1\], as `view` has"):
        _build(saved[0], 3, (8, 8, 1))


def test_what_keras_cannot_load_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no\.keras is not there"):
        _build(str(tmp_path / "no.keras"), 3)
    (tmp_path / "cut.keras").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"cut\.keras cannot be loaded by Keras"):
        _build(str(tmp_path / "cut.keras"), 3)


def test_another_end_is_refused(tmp_path):
    inputs = keras.Input((8, 8, 3))
    path = str(tmp_path / "convolution.keras")
    keras.Model(inputs, keras.layers.Conv2D(3, 1)(inputs)).save(path)
    with pytest.raises(UserError, match="must be a functional or Sequential model that ends in"):
        _build(path, 3)


def test_what_its_author_froze_learns_in_the_second_phase(tmp_path):
    inputs = keras.Input((8, 8, 3))
    frozen = keras.layers.Conv2D(4, 3, trainable=False)
    outputs = keras.layers.GlobalAveragePooling2D()(frozen(inputs))
    path = str(tmp_path / "frozen.keras")
    keras.Model(inputs, keras.layers.Dense(3)(outputs)).save(path)
    build = find_builder(path, "classes")
    tuned = build((8, 8, 3), 3, TrainingOptions(model=path, fine_tuning={}))
    assert len(tuned.trainable_variables) == 4
    assert len(build((8, 8, 3), 3, TrainingOptions(model=path)).trainable_variables) == 2
