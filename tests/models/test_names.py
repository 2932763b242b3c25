import keras
import pytest

from image_pipeline.components.models.names import BACKBONES, BUILT_IN, refuse_model
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.transform.options import OWN

pytestmark = pytest.mark.unit


def test_the_backbones_are_keras_own():
    own = {name for name, each in vars(keras.applications).items() if callable(each)}
    assert set(BACKBONES) == own | {"EfficientNetLite0"}
    assert set(BACKBONES.values()) <= OWN.keys()


def test_an_unknown_name_is_explained():
    with pytest.raises(ValueError, match=r"no model 'resnet51'; did you mean .*ResNet50.*known: s"):
        TrainingOptions(model="resnet51")
    for name in (None, "resnet", "ResNet50", "my.own", "saved/my.keras"):
        assert TrainingOptions(model=name).model == name


@pytest.mark.parametrize(
    ("model", "head", "message"),
    [
        ("unet", "classes", "gives masks, but the labels belong to whole images; take one of sm"),
        ("resnet", "masks", "gives one answer an image, but the data has masks; take one of unet"),
        ("VGG16", "boxes", "one answer an image, but the data has boxes; take one of detector, d"),
        ("a.keras", "masks", "gives one answer an image, but the data has masks"),
        ("detector", "masks", "gives boxes, but the data has masks"),
    ],
)
def test_what_cannot_answer_is_refused(model, head, message):
    told = refuse_model(model, head)
    assert f"training.model={model} " in told and message in told


@pytest.mark.parametrize("head", ["classes", "tags", "value"])
def test_what_sees_images_learns_any_label_of_theirs(head):
    for model in (None, "small", "resnet", "cnn", "VGG16", "a.keras", "own.model"):
        assert refuse_model(model, head) is None
    assert refuse_model("unet", "masks") is refuse_model("own.model", "boxes") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fine_tuning": {}}, "freezes all but the head at first, which would be random weights"),
        ({"model": "a.keras", "weights": "b.h5"}, "has weights, and training.weights=b.h5 gives o"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TrainingOptions(**options)


def test_all_names_differ():
    assert not {name.lower() for name in BACKBONES} & {name.lower() for name in BUILT_IN}
