import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.show.random_steps import describe_steps

pytestmark = pytest.mark.unit


def test_steps_are_described_by_their_options():
    steps = ["flip_horizontal", {"op": "gaussian_blur", "probability": 1.0}]
    own = {"op": "mine.steps.fade", "arguments": {"by": 3}}
    feeding = FeedingOptions(augment=[*steps, own])
    assert describe_steps(feeding.augment) == [
        "flip_horizontal probability 0.5",
        "gaussian_blur sigma_px 0.1 to 2, probability 1",
        "mine.steps.fade by 3",
    ]
    assert describe_steps(()) == ["no random steps"]
