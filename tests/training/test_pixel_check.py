import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.training.pixel_check import (
    check_pixels,
    find_normalize,
    notice_graph,
    notice_pixels,
)
from image_pipeline.components.transform import fixed
from image_pipeline.components.transform import options as transform_names
from image_pipeline.components.views.options import ViewOptions
from tests import graphs
from tests.tiers import wide

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)


@pytest.fixture(
    scope="module",
    params=["imagenet", wide("caffe"), wide("minus_one_to_one"), wide("keep_levels")],
)
def graph(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, graphs.write_graph(folder, preprocessing_fn=getattr(fixed, request.param))


def test_a_backbone_takes_its_own_pixels_only(graph):
    name, folder = graph
    wants = {
        "DenseNet121": "imagenet",
        "ResNet50": "caffe",
        "MobileNetV2": "minus_one_to_one",
        "MobileNetV3Small": "keep_levels",
        "EfficientNetV2B0": "keep_levels",
    }
    for model, wanted in wants.items():
        if wanted == name:
            check_pixels(model, folder, VIEW)
            continue
        message = rf"{model} wants the pixels of transform.preprocessing_fn={wanted}, but this run"
        with pytest.raises(UserError, match=message):
            check_pixels(model, folder, VIEW)


def test_other_models_take_any():
    check_pixels("resnet", graphs.shared_graph_dir(), VIEW)
    with pytest.raises(UserError, match=r"differ from them by up to 254\.\d grey levels"):
        check_pixels("MobileNetV3Small", graphs.shared_graph_dir(), VIEW)


def make_network(*first):
    layers = [keras.layers.Conv2D(2, 3), keras.layers.GlobalAveragePooling2D()]
    return keras.Sequential([keras.Input((8, 8, 3)), *first, *layers, keras.layers.Dense(2)])


def make_inner(*first):
    """A network within a network, as `keras.applications` are used."""
    images = keras.Input((8, 8, 3))
    seen = make_network(*first)(keras.layers.RandomFlip()(images))
    return keras.Model(images, keras.layers.Dense(2)(seen))


class Own(keras.Model):
    """A network that is not a graph of layers."""

    def __init__(self, first):
        super().__init__()
        self.first, self.rest = first, make_network()
        self(np.zeros([1, 8, 8, 3], np.float32))

    def call(self, images):
        return self.rest(self.first(images))


class Divides(keras.Model):
    """A network that scales its images in its own `call`."""

    def __init__(self):
        super().__init__()
        self.rest = make_network()
        self(np.zeros([1, 8, 8, 3], np.float32))

    def call(self, images):
        return self.rest(images / 255)


@pytest.mark.parametrize(
    ("make", "does", "centres"),
    [
        (lambda: make_network(keras.layers.Lambda(lambda images: images / 255)), "scales", False),
        (lambda: make_scaled(lambda images: images / 127.5 - 1), "scales", True),
        (lambda: make_scaled(keras.applications.mobilenet_v2.preprocess_input), "scales", True),
        (lambda: make_scaled(keras.applications.resnet50.preprocess_input), "moves", True),
        (lambda: make_network(keras.layers.Lambda(subtract_mean)), "moves", True),
        (lambda: make_scaled(pad(keras.applications.resnet50.preprocess_input)), "moves", True),
        (lambda: make_scaled(pad(keras.applications.densenet.preprocess_input)), "scales", True),
        (Divides, "scales", False),
    ],
    ids=["lambda", "operations", "divides", "moves", "BGR", "padded", "padded shares", "call"],
)
def test_a_network_that_scales_by_no_layer_of_its_own_is_told_likewise(graph, make, does, centres):
    name, folder = graph
    told = notice_graph(make(), folder, VIEW)
    # Of levels that are centred already, only what centres them again is wrong.
    if name == "keep_levels" or (name == "caffe" and not centres):
        assert told == []
        return
    (one,) = told
    by = "centres grey levels, 0 to 255, but" if name == "caffe" else f"{does} grey levels, 0 to"
    assert one.startswith(f"the model {by}")
    assert one.endswith("; set transform.preprocessing_fn=keep_levels, or leave that step out")


@pytest.mark.parametrize(
    "scale",
    [lambda images: images * 2 - 1, lambda images: (images + 1) * 127.5, lambda images: -images],
)
def test_a_network_that_changes_its_images_little_or_back_to_levels_is_not_told(graph, scale):
    assert notice_graph(make_scaled(scale), graph[1], VIEW) == []


def test_a_frozen_layer_has_learned_too():
    network = make_network(keras.layers.Conv2D(3, 1), keras.layers.Rescaling(1 / 255))
    network.trainable = False
    assert notice_graph(network, graphs.shared_graph_dir(), VIEW) == []


def test_a_network_whose_call_is_a_graph_of_its_own_is_left_alone():
    class Compiled(keras.Model):
        def __init__(self):
            super().__init__()
            self.rest = make_network()

        @tf.function
        def call(self, images):
            return self.rest(images / 255)

    network = Compiled()
    network(np.zeros([1, 8, 8, 3], np.float32))
    assert notice_graph(network, graphs.shared_graph_dir(), VIEW) == []
    assert network(np.zeros([1, 8, 8, 3], np.float32)).shape == (1, 2)


def subtract_mean(images):
    return images[..., ::-1] - np.array([103.939, 116.779, 123.68], np.float32)


def test_layers_of_a_range_of_values_are_told_where_they_would_clip_others(graph):
    """`RandomContrast` clips to 0 and 255, unless it has another `value_range`."""
    name, folder = graph
    for make in (keras.layers.RandomBrightness, keras.layers.RandomContrast):
        told = notice_graph(make_inner(make(0.2, name="own")), folder, VIEW)
        assert bool(told) is not (name == "keep_levels")
        if told:
            (one,) = told
            assert one.startswith("the model's layer 'own' has value_range=(0, 255), but the tra")
            assert one.endswith("; set that to them, or leave the layer out")
        within = make(0.2, value_range=(-3, 3))
        assert bool(notice_graph(make_network(within), folder, VIEW)) is (
            name in ("keep_levels", "caffe")
        )
    # What reaches the layer counts, which others before it may have scaled.
    shares = make_network(keras.layers.Rescaling(1 / 255), keras.layers.RandomBrightness(0.2))
    assert ("value_range" in str(notice_graph(shares, folder, VIEW))) is (
        name in ("keep_levels", "caffe")
    )


def pad(scale):
    return lambda images: keras.layers.ZeroPadding2D(3)(scale(images))


def make_scaled(scale):
    images = keras.Input((8, 8, 3))
    seen = keras.layers.Conv2D(2, 3)(scale(images))
    return keras.Model(images, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling2D()(seen)))


def normalization(mean, deviation):
    return keras.layers.Normalization(mean=[mean] * 3, variance=[deviation**2] * 3, name="own")


@pytest.mark.parametrize("make", [make_network, make_inner, Own], ids=["flat", "inner", "own"])
def test_a_network_that_scales_its_images_itself_is_told_where_the_graph_has(graph, make):
    name, folder = graph
    told = notice_graph(make(keras.layers.Rescaling(1 / 255, name="own")), folder, VIEW)
    if name == "keep_levels" or name == "caffe":  # Both have levels, the latter less the mean.
        assert told == []
        return
    (one,) = told
    assert one.startswith("the model's layer 'own' scales grey levels, 0 to 255, by 0.00392, but ")
    assert one.endswith("; set transform.preprocessing_fn=keep_levels, or leave the layer out")


def test_a_network_that_normalises_is_told_by_the_spread_it_knows(graph):
    name, folder = graph
    of_levels, of_shares = normalization(120.0, 60.0), normalization(0.45, 0.225)
    is_levels = name in ("keep_levels", "caffe")
    # Those of `caffe` are centred already, and would be again.
    assert bool(notice_graph(make_network(of_levels), folder, VIEW)) is (name != "keep_levels")
    told = notice_graph(make_network(of_shares), folder, VIEW)
    assert bool(told) is is_levels
    if told:
        assert "'own' normalises values of a standard deviation of 0.225, but the tr" in told[0]
    assert notice_graph(make_network(keras.layers.Normalization()), folder, VIEW) == []


def test_scaling_behind_what_has_learned_is_nothing_of_the_pixels():
    layers = [keras.layers.Conv2D(3, 1), keras.layers.Rescaling(1 / 255)]
    folder = graphs.shared_graph_dir()
    assert notice_graph(make_network(*layers), folder, VIEW) == []
    # What makes levels of shares, and then shares of these, is right.
    there_and_back = [keras.layers.Rescaling(255.0), keras.layers.Rescaling(1 / 255)]
    assert notice_graph(make_network(*there_and_back), folder, VIEW) == []


def make_trained(name, bias=0.5, before=()):
    """What `keras.applications` would give, in small."""
    images = keras.Input((8, 8, 3))
    base = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(2, 3)], name=name)
    base.layers[0].set_weights([base.layers[0].kernel.numpy(), np.full(2, bias)])
    outputs = images
    for layer in before:
        outputs = layer(outputs)
    pooled = keras.layers.GlobalAveragePooling2D()(base(outputs))
    return keras.Model(images, keras.layers.Dense(2)(pooled))


def test_weights_that_were_trained_with_other_pixels_are_told(graph):
    name, folder = graph
    wants = {
        **{"resnet50": "caffe", "vgg16": "caffe", "densenet121": "imagenet"},
        **{"mobilenetv2_1.00_224": "minus_one_to_one", "inception_v3": "minus_one_to_one"},
    }
    for network, wanted in wants.items():
        told = notice_graph(make_trained(network), folder, VIEW)
        assert len(told) == (wanted != name), (network, told)
        if told:
            assert f"trained with the pixels of transform.preprocessing_fn={wanted}, but" in told[0]


@pytest.mark.parametrize("network", ["MobileNetV3Small", "efficientnetv2-b0"])
def test_a_network_that_scales_itself_does_not_where_its_own_scaling_was_left_out(graph, network):
    name, folder = graph
    told = notice_graph(make_trained(network), folder, VIEW)
    assert len(told) == (name in ("keep_levels", "caffe"))
    if told:
        assert " was made with include_preprocessing=False, and so does not scale its" in told[0]
    assert not notice_graph(make_trained(network, bias=0), folder, VIEW)


def test_nothing_is_said_of_weights_that_were_not_trained_or_of_pixels_that_are_not_known():
    folder = graphs.shared_graph_dir()
    assert notice_graph(make_trained("resnet50"), folder, VIEW)
    assert notice_graph(keras.Sequential([make_trained("resnet50")]), folder, VIEW)
    assert notice_graph(make_trained("resnet50", before=[keras.layers.RandomFlip()]), folder, VIEW)
    assert not notice_graph(make_trained("resnet50", bias=0), folder, VIEW)
    assert not notice_graph(make_trained("resnet5"), folder, VIEW)
    own = [keras.layers.Lambda(lambda images: 255 * images)]
    assert not notice_graph(make_trained("resnet50", before=own), folder, VIEW)


def test_a_network_of_keras_itself_is_told():
    network = keras.applications.MobileNetV3Small((32, 32, 3), weights=None, classes=2)
    folder = graphs.shared_graph_dir((32, 32, 3))
    (told,) = notice_graph(network, folder, ViewOptions(height_px=32, width_px=32))
    assert "scales grey levels, 0 to 255, by 0.00784" in told


def test_before_there_is_a_graph_the_functions_of_this_package_tell_as_much(graph):
    name, folder = graph
    own = transform_names.OWN
    for network in (make_network(keras.layers.Rescaling(1 / 255)), make_trained("vgg16")):
        known = notice_pixels(network, find_normalize(own[name]), VIEW, "the transform graph")
        assert known == notice_graph(network, folder, VIEW)
        standardised = notice_pixels(network, find_normalize(own["standardize"]), VIEW, "it")
        assert len(standardised) == 1 and "but it gives values" in standardised[0]
    assert find_normalize(own["whiten_zca"]) is find_normalize("mine.preprocess") is None
