import pydantic
import pytest

from image_pipeline.components.augment.options import (
    ColorJitter,
    GaussianBlur,
    RandomErasing,
    RandomResizedCrop,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("step", [RandomResizedCrop, RandomErasing])
@pytest.mark.parametrize("name", ["area", "aspect"])
@pytest.mark.parametrize("bounds", [(0, 0.5), (-1, 0.5), (0.5, 0.1)])
def test_bounds_must_be_positive_and_in_order(step, name, bounds):
    rule = rf"{name} must be two positive numbers, the lesser first, got \["
    with pytest.raises(pydantic.ValidationError, match=rule):
        step(**{name: bounds})


@pytest.mark.parametrize("step", [RandomResizedCrop, RandomErasing])
def test_an_area_is_a_share(step):
    with pytest.raises(pydantic.ValidationError, match=r"area is a share .* at most 1, got 1\.5\."):
        step(area=(0.5, 1.5))


@pytest.mark.parametrize("bounds", [(0, 1), (2, 1), (-1, 1)])
def test_a_blurs_bounds_must_be_positive_and_in_order(bounds):
    rule = r"sigma_px must be two positive .*, got \[.*\]"
    with pytest.raises(pydantic.ValidationError, match=rule):
        GaussianBlur(sigma_px=bounds)


def test_steps_are_frozen():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        ColorJitter().hue = 0.1
