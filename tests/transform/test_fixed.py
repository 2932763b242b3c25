"""Pixels of networks with weights of others, compared with Keras's own functions for them."""

import importlib
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.names import BACKBONES
from image_pipeline.components.transform import fixed
from image_pipeline.components.transform.fixed import NORMALIZATIONS
from image_pipeline.components.transform.options import FIXED, OWN, TransformOptions, name_function

pytestmark = pytest.mark.unit


def _keras_function(name):
    module = inspect.getmodule(inspect.unwrap(getattr(keras.applications, name)))
    return module.preprocess_input


@pytest.mark.parametrize("name", sorted(BACKBONES.keys() - {"EfficientNetLite0"}))
def test_each_backbone_gets_what_keras_gives_it(name):
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3)).astype(np.float32)
    ours = NORMALIZATIONS[BACKBONES[name]](tf.constant(images)).numpy()
    np.testing.assert_allclose(ours, _keras_function(name)(images.copy()), rtol=1e-5, atol=2e-5)


def test_networks_that_scale_their_pixels_themselves_do():
    for name in ("MobileNetV3Small", "EfficientNetB0", "EfficientNetV2B0"):
        model = getattr(keras.applications, name)(
            include_top=False, weights=None, input_shape=(32, 32, 3)
        )
        assert any(isinstance(each, keras.layers.Rescaling) for each in model.layers)


def test_short_names_are_functions_that_exist():
    for path in OWN.values():
        module, _, name = path.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))
    assert set(FIXED) == set(NORMALIZATIONS)
    assert TransformOptions(preprocessing_fn="caffe").preprocessing_fn == OWN["caffe"]
    assert name_function("my.own") == "my.own"
    with pytest.raises(ValueError, match="no preprocessing_fn 'cafe'; did you mean caffe"):
        TransformOptions(preprocessing_fn="cafe")


@pytest.mark.parametrize("image", [tf.zeros([1, 2, 2, 1], tf.uint8), tf.zeros([1, 2, 2, 3])])
def test_other_images_are_refused(image):
    with pytest.raises(UserError, match="preprocessing_fn=imagenet normalises images of 8 bits"):
        fixed.imagenet({"image": image, "label": tf.constant([b"a"])})
