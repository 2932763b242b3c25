"""Networks that start from ImageNet's weights."""

import io
import pickle

import keras
import numpy as np
import pytest
import skimage

from image_pipeline.components import extras
from image_pipeline.components.errors import UserError
from image_pipeline.components.models import backbones, names
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.options import TrainingOptions

pytestmark = pytest.mark.unit

LITE = TrainingOptions(model="EfficientNetLite0", weights="imagenet")
CATS = (281, 282, 285)  # tabby, tiger cat, Egyptian cat
CUPS = (504, 967, 968)  # coffee mug, espresso, cup


@pytest.mark.parametrize(("photo", "classes"), [("cat", CATS), ("coffee", CUPS)])
def test_efficientnet_lite_knows_what_a_photo_shows(photo, classes):
    """With the head of the same file, which numbers ImageNet's classes as they are known."""
    model = find_builder(LITE.model, "classes")((224, 224, 3), 2, LITE)
    see = keras.Model(model.inputs, model.layers[-1].input)
    image = keras.ops.image.resize(getattr(skimage.data, photo)(), (224, 224), antialias=True)
    head = dict(backbones._read_arrays(names.find_weights()))
    features = see({"image": np.asarray(image)[None] / 127.5 - 1})
    answer = np.asarray(features) @ head["_fc.weight"].T + head["_fc.bias"]
    assert int(answer.argmax()) in classes


def test_its_maps_see_with_the_same_weights():
    image = np.random.default_rng(0).uniform(-1, 1, (1, 64, 96, 3)).astype(np.float32)
    inputs = keras.Input((64, 96, 3))
    maps = backbones.see_stages(inputs, pretrained=True)
    sizes = [each.shape[1:] for each in maps]
    assert sizes == [(32, 48, 16), (16, 24, 24), (8, 12, 40), (4, 6, 112), (2, 3, 320)]
    whole = find_builder(LITE.model, "classes")((64, 96, 3), 2, LITE)
    own = next(each for each in whole.layers if each.output.shape[1:] == (2, 3, 320))
    narrow = [each for each in whole.layers if each.output.shape[1:] == (2, 3, 320)][-1]
    assert own is not narrow
    np.testing.assert_allclose(
        keras.Model(inputs, maps[-1])(image),
        keras.Model(whole.inputs, narrow.output)({"image": image}),
        atol=1e-5,
    )


@pytest.mark.parametrize(("name", "head"), [("unet_lite0", "masks"), ("detector_lite0", "boxes")])
@pytest.mark.parametrize("size", [(64, 96, 3), (50, 70, 3)])
def test_masks_and_boxes_start_from_it(name, head, size):
    """Of any size: the network rounds halves up."""
    build = find_builder(name, head)
    options = TrainingOptions(model=name, weights="imagenet")
    model, other = build(size, 3, options), build(size, 3, TrainingOptions(model=name))
    (first,), (random,) = model.layers[1].get_weights(), other.layers[1].get_weights()
    head = dict(backbones._read_arrays(names.find_weights()))
    np.testing.assert_array_equal(first, head["_conv_stem.weight"].transpose(2, 3, 1, 0))
    assert not np.array_equal(first, random)
    if name == "unet_lite0":
        assert model.output_shape == (None, *size[:2], 3)
    else:
        points = -(-size[0] // 4) * -(-size[1] // 4)
        assert [each.shape for each in model.outputs] == [(None, points, 4), (None, points, 3)]


def test_without_the_package_it_says_what_to_install(monkeypatch):
    package, *_ = extras._PACKAGES["weights"]
    monkeypatch.setitem(extras._PACKAGES, "weights", (package, "no_such_module"))
    with pytest.raises(UserError, match=r"imagenet of EfficientNetLite0 needs .*\[weights\]"):
        find_builder(LITE.model, "classes")((64, 64, 3), 2, LITE)


@pytest.mark.parametrize("content", [None, b"", b"<html>", "flipped"])
def test_a_damaged_file_is_told_and_not_read(monkeypatch, tmp_path, content):
    """A flipped byte would give other weights, and nothing would fail."""
    folder = tmp_path / names._PACKAGE / "models"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    if content == "flipped":
        with open(names.find_weights(), "rb") as file:
            content = bytearray(file.read())
        content[len(content) // 2] ^= 1
    if content is not None:
        (folder / names._FILE).write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"must begin with 57934424, got .*; reinstall them: pip"):
        find_builder(LITE.model, "classes")((64, 64, 3), 2, LITE)


def test_no_code_is_unpickled():
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.eval is not part of a tensor"):
        backbones._Tensors(io.BytesIO(pickle.dumps(eval))).load()


MOBILE = TrainingOptions(model="MobileNetV3Small", weights="imagenet")


def test_keras_own_weights_are_keras_own_download(monkeypatch, tmp_path):
    cached = str(tmp_path / "cached.weights.h5")
    keras.utils.set_random_seed(3)
    network = keras.applications.MobileNetV3Small(include_top=False, weights=None, pooling="avg")
    network.save_weights(cached)
    asked = []

    def get_file(name, url, **_):
        asked.append((name, url))
        return cached

    monkeypatch.setattr(keras.src.utils.file_utils, "get_file", get_file)
    model = find_builder(MOBILE.model, "classes")((32, 32, 3), 2, MOBILE)
    for ours, theirs in zip(model.get_weights(), network.get_weights(), strict=False):
        np.testing.assert_array_equal(ours, theirs)
    ((name, url),) = asked
    assert "mobilenet_v3" in name and url.startswith("https://storage.googleapis.com/")


def test_what_cannot_be_downloaded_says_where_it_may_lie(monkeypatch):
    def get_file(*_, **__):
        raise OSError("URL fetch failure: no route to host")

    monkeypatch.setattr(keras.src.utils.file_utils, "get_file", get_file)
    with pytest.raises(
        UserError, match=r"cannot be downloaded: .*URL fetch .*keras/models first; o"
    ):
        find_builder(MOBILE.model, "classes")((32, 32, 3), 2, MOBILE)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("EfficientNetLite0", "classes"),
        ("MobileNetV3Small", "classes"),
        ("unet_lite0", "masks"),
        ("detector_lite0", "boxes"),
    ],
)
def test_other_channels_than_three_are_refused(name, head):
    options = TrainingOptions(model=name, weights="imagenet")
    with pytest.raises(UserError, match=r"3 channels, but view.channels=1; set view.channels=3"):
        find_builder(name, head)((32, 32, 1), 2, options)
