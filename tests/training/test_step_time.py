import pytest

from image_pipeline.components.training.step_time import measure_step

pytestmark = [pytest.mark.unit, pytest.mark.e2e]


@pytest.mark.parametrize(
    ("kind", "classes", "model"),
    [
        ("classes", 3, "small"),
        ("classes", 3, "EfficientNetLite0"),
        ("tags", 2, "small"),
        ("values", 0, "small"),
        ("masks", 0, "unet"),
        ("boxes", 2, "detector"),
    ],
)
def test_every_kind_of_labels_has_a_step(kind, classes, model):
    assert 0 < measure_step(kind, classes, model, 16, 24, 3) < 10
