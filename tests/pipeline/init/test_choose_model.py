"""Which model suits images of a size and number."""

import pytest

from image_pipeline.init.choose_model import choose_model

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("size_px", "images", "kind", "model"),
    [
        (32, 60000, "classes", "resnet"),
        (28, None, "tags", "resnet"),
        (32, 1999, "classes", "small"),
        (8, 60000, "classes", "small"),
        (224, 1999, "values", "small"),
        (64, 2000, "classes", "cnn"),
    ],
)
def test_the_model_follows_size_and_number(size_px, images, kind, model):
    assert choose_model(size_px, images, kind)[0] == model


@pytest.mark.parametrize("kind", ["masks", "boxes"])
def test_masks_and_boxes_have_their_own(kind):
    assert choose_model(224, 60000, kind) is None
