import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.options import TrainingOptions

pytestmark = pytest.mark.unit


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
