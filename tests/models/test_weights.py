"""Weights in every form in which a person may have them end up in the same place."""

import os

import h5py
import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.weights import (
    carry_over,
    leave_out_head,
    name_weights,
    read_weights,
)

pytestmark = pytest.mark.unit

SHAPE = (8, 8, 3)


def _build(seed, classes=3, model="small", shape=SHAPE):
    keras.utils.set_random_seed(seed)
    built = find_builder(model, "classes")(shape, classes, TrainingOptions())
    for weight in built.weights:  # BatchNorm's too
        weight.assign(weight + keras.random.uniform(weight.shape, seed=seed))
    return built


@pytest.fixture(scope="module")
def donor():
    return _build(1)


def _write_old(path, model):
    """As Keras wrote weights before version 3."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = file.create_group(layer.name)
            names = [f"{layer.name}/{number}:0" for number in range(len(layer.weights))]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, weight in zip(names, layer.weights, strict=True):
                group[name] = np.asarray(weight)
    return path


def _save(kind, model, folder):
    path = str(folder / f"saved{kind}")
    if kind == ".old.h5":
        return _write_old(path, model)
    if kind == ".keras":
        model.save(path)
    elif kind == ".weights.h5":
        model.save_weights(path)
    else:
        model.export(path, verbose=False)
    return path


KINDS = [".weights.h5", ".old.h5", ".keras", "_model"]


@pytest.mark.parametrize("kind", KINDS)
def test_all_weights_are_taken(kind, donor, tmp_path):
    path, model = _save(kind, donor, tmp_path), _build(2)
    carry_over(model, read_weights(path, model, "it"), "it")
    for ours, theirs in zip(model.weights, donor.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_head", [True, False])
def test_another_number_of_classes_gets_a_new_head(kind, has_head, donor, tmp_path):
    given = donor if has_head else leave_out_head(donor)
    path, model = _save(kind, given, tmp_path), _build(2, classes=5)
    head = model.layers[-1].get_weights()
    carry_over(model, read_weights(path, model, "it"), "it")
    for ours, theirs in zip(model.weights[:-2], donor.weights[:-2], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, before in zip(model.layers[-1].get_weights(), head, strict=True):
        np.testing.assert_array_equal(ours, before)


@pytest.mark.parametrize("kind", [".weights.h5", ".old.h5"])
def test_a_network_of_keras_with_its_own_classifier(kind, tmp_path):
    keras.utils.set_random_seed(1)
    theirs = keras.applications.MobileNetV2(weights=None, classes=7, input_shape=(32, 32, 3))
    path = _save(kind, theirs, tmp_path)
    model = _build(2, model="MobileNetV2", shape=(32, 32, 3))
    carry_over(model, read_weights(path, model, "it"), "it")
    np.testing.assert_array_equal(model.weights[0], theirs.weights[0])
    np.testing.assert_array_equal(model.weights[-3], theirs.weights[-3])


def test_the_head_is_taken_class_by_class(donor):
    model = _build(2, classes=4)
    kernel = model.layers[-1].get_weights()[0]
    arrays = [np.asarray(weight) for weight in donor.weights]
    carry_over(model, arrays, "it", ["cat", "dog", "owl"], ["owl", "bat", "cat", "dog"])
    given = donor.layers[-1].get_weights()[0]
    ours = model.layers[-1].get_weights()[0]
    np.testing.assert_array_equal(ours[:, [0, 2, 3]], given[:, [2, 0, 1]])
    np.testing.assert_array_equal(ours[:, 1], kernel[:, 1])


def test_names_are_learned_without_a_change():
    model = _build(1)
    before = model.get_weights()
    names = name_weights(model)
    assert len(set(names)) == len(before)
    for ours, was in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, was)


@pytest.mark.parametrize("kind", KINDS)
def test_another_networks_weights_are_refused(kind, donor, tmp_path):
    path, model = _save(kind, donor, tmp_path), _build(2, model="resnet")
    before = model.get_weights()
    with pytest.raises(UserError, match=r"it has \d+ arrays that do not fit the model's \d+ \("):
        carry_over(model, read_weights(path, model, "it"), "it")
    for ours, was in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, was)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_off_is_refused(kind, donor, tmp_path):
    path = _save(kind, donor, tmp_path)
    file = f"{path}/variables/variables.index" if os.path.isdir(path) else path
    with open(file, "rb+") as stream:
        stream.truncate(os.path.getsize(file) // 2)
    with pytest.raises(UserError, match=r"it cannot be read: .* It is damaged or cut off"):
        read_weights(path, donor, "it")


def test_an_old_file_of_a_model_within_a_model_is_put_in_order(tmp_path):
    def build():
        keras.utils.clear_session()
        inner = keras.Sequential([keras.Input((8,)), keras.layers.BatchNormalization()])
        inner.add(keras.layers.BatchNormalization())
        inputs = keras.Input((8,))
        return keras.Model(inputs, keras.layers.Dense(3)(inner(inputs)))

    theirs, model = build(), build()
    for number, weight in enumerate(theirs.weights):
        weight.assign(np.full(weight.shape, number))
    path = str(tmp_path / "old.h5")
    theirs.save(path)  # what learns of both BatchNorms, then what does not
    carry_over(model, read_weights(path, model, "it"), "it")
    for ours, given in zip(model.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(ours, given)


def test_weights_that_are_no_numbers_are_refused(donor):
    model, arrays = _build(2), [np.asarray(weight) for weight in donor.weights]
    arrays[1] = np.full_like(arrays[1], np.nan)
    with pytest.raises(UserError, match=r"it has NaN or infinity among the values of batch_norm"):
        carry_over(model, arrays, "it")


def test_a_model_with_layers_that_nobody_knows_is_refused(tmp_path):
    class Own(keras.layers.Layer):
        def call(self, images):
            return images

    inputs = keras.Input(SHAPE)
    path = str(tmp_path / "own.keras")
    keras.Model(inputs, Own()(inputs)).save(path)
    with pytest.raises(UserError, match=r"or a model with layers of your own; copy it again, or"):
        read_weights(path, _build(2), "it")


@pytest.mark.parametrize("name", ["no.weights.h5", "no.h5", "no.keras", "no_folder"])
def test_what_is_missing_is_refused(name, donor, tmp_path):
    with pytest.raises(UserError, match=r"it is not there; give a \.weights\.h5, \.h5 or \.keras"):
        read_weights(str(tmp_path / name), donor, "it")
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match="it is not there"):
        read_weights(str(tmp_path / name), donor, "it")
