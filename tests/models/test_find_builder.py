import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.names import BACKBONES, BUILT_IN, refuse_model
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.choose_task import TASK_OF, TASKS
from image_pipeline.components.training.model_check import build_checked_model
from image_pipeline.components.training.recipe import Phases
from image_pipeline.components.transform.options import OWN
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.unit

FEEDING = FeedingOptions(batch_size=2)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "task", "side"),
    [
        ("small", "classification", 8),
        ("plain", "tagging", 8),
        ("resnet", "classification", 8),
        ("resnet", "tagging", 8),
        ("resnet", "regression", 8),
        ("cnn", "classification", 24),
        ("MobileNetV3Small", "classification", 32),
        ("EfficientNetLite0", "classification", 32),
        ("unet", "segmentation", 8),
        ("unet_lite0", "segmentation", 33),
        ("detector", "detection", 16),
        ("detector_lite0", "detection", 33),
    ],
)
def test_every_kind_passes_the_checks_of_a_users_own_model(name, task, side):
    view = ViewOptions(height_px=side, width_px=side)
    classes = 1 if task == "regression" else 3
    options = TrainingOptions(model=name)
    checked = build_checked_model(view, FEEDING, options, classes, task=TASKS[task])
    assert not checked.gives_logits
    assert isinstance(checked.model.optimizer, keras.optimizers.Adam)


# He et al. 2015, table 6: 0.27 million; Zagoruyko and Komodakis 2016, table 4: 2.7 million.
@pytest.mark.parametrize(
    ("name", "weights"), [("resnet", 272_282), ("resnet_wide", 2_748_890), ("cnn", 1_228_138)]
)
def test_residual_networks_have_the_published_number_of_weights(name, weights):
    model = find_builder(name, "classes")((32, 32, 3), 10, TrainingOptions())
    assert sum(int(np.prod(each.shape)) for each in model.trainable_weights) == weights


# Of 3 × 3 convolutions of 32, 64 and 128 filters, 4 × 4 × 128 values to 128, and these to 10.
def test_a_plain_network_has_a_convolution_a_halving():
    model = find_builder("plain", "classes")((32, 32, 3), 10, TrainingOptions())
    convolutions = 9 * (3 * 32 + 32 * 64 + 64 * 128) + 32 + 64 + 128
    assert model.count_params() == convolutions + 2048 * 128 + 128 + 128 * 10 + 10


def test_larger_images_are_halved_once_more():
    built = [
        find_builder("cnn", "classes")((side, side, 3), 2, TrainingOptions()) for side in (64, 96)
    ]
    pools = [
        [each for each in model.layers if isinstance(each, keras.layers.MaxPooling2D)]
        for model in built
    ]
    assert [len(each) for each in pools] == [0, 1]


def test_a_backbone_says_which_images_it_takes():
    build = find_builder("ResNet50", "classes")
    with pytest.raises(UserError, match=r"ResNet50 cannot take images of 8 × 8 × 3 \(height, wid"):
        build((8, 8, 3), 2, TrainingOptions())


def test_a_model_of_another_kind_is_refused():
    with pytest.raises(UserError, match=r"training.model=unet gives masks"):
        find_builder("unet", "tags")


# With the import that docs/training.md names; and once more, as TFX imports a dotted path's module.
LOAD = """
import importlib
import pickle
import sys

import keras

import image_pipeline.components.models.find_builder

def answer(name):
    with open(f"{name}.data", "rb") as file:
        images, labels = pickle.load(file)
    model = keras.models.load_model(f"{name}.keras")
    return model.predict(images, verbose=0), model.evaluate(images, labels, verbose=0)

found = {name: answer(name) for name in sys.argv[1:]}
for name, module in list(sys.modules.items()):
    if name.startswith("image_pipeline.components.models."):
        importlib.reload(module)
again = {name: answer(name) for name in sys.argv[1:]}
with open("found", "wb") as file:
    pickle.dump([found, again], file)
"""


@pytest.mark.e2e
def test_what_keras_saved_of_every_kind_is_loaded_with_loss_metrics_and_schedule(tmp_path):
    due = {}
    images = np.random.default_rng(0).normal(size=(4, 16, 16, 3)).astype(np.float32)
    for label, task in TASK_OF.items():
        spread = {"label_smoothing": 0.1} if label.name in ("classes", "tags") else {}
        options = TrainingOptions(
            model=task.default_model,
            schedule="cosine",
            warm_start="latest_blessed",
            fine_tuning={"head_epochs": 1},
            **spread,
        )
        outputs = 1 if task.head == "value" else 3
        model = find_builder(task.default_model, task.head)((16, 16, 3), outputs, options)
        Phases(model, options, steps_per_epoch=1).enter(epoch=1)
        labels, _ = task.make_labels(model(images), False)
        labels = keras.tree.map_structure(np.asarray, labels)
        model.train_on_batch(images, labels)
        model.save(tmp_path / f"{task.head}.keras")
        (tmp_path / f"{task.head}.data").write_bytes(pickle.dumps((images, labels)))
        evaluated = model.evaluate(images, labels, verbose=0)
        due[task.head] = (model.predict(images, verbose=0), evaluated)
    assert len(due) == 5
    subprocess.run([sys.executable, "-c", LOAD, *due], cwd=tmp_path, check=True)
    for found in pickle.loads((tmp_path / "found").read_bytes()):
        for head, (outputs, evaluated) in due.items():
            keras.tree.map_structure(np.testing.assert_array_equal, found[head][0], outputs)
            assert found[head][1] == pytest.approx(evaluated, rel=1e-6)


def test_the_backbones_are_keras_own():
    own = {name for name, each in vars(keras.applications).items() if callable(each)}
    assert set(BACKBONES) == own | {"EfficientNetLite0"}
    assert set(BACKBONES.values()) <= OWN.keys()


def test_models_are_named_in_several_ways():
    for name in (None, "resnet", "ResNet50", "my.own", "saved/my.keras"):
        assert TrainingOptions(model=name).model == name


@pytest.mark.parametrize("head", ["classes", "tags", "value"])
def test_what_sees_images_learns_any_label_of_theirs(head):
    for model in (None, "small", "resnet", "cnn", "VGG16", "a.keras", "own.model"):
        assert refuse_model(model, head) is None
    assert refuse_model("unet", "masks") is refuse_model("own.model", "boxes") is None


def test_all_names_differ():
    assert not {name.lower() for name in BACKBONES} & {name.lower() for name in BUILT_IN}
