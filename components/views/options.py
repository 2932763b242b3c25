"""Options for the model's view of an image."""

from typing import Literal

import pydantic

from image_pipeline.components.options import Options


class ViewOptions(Options):
    """The deterministic view of an image that analysis, evaluation and serving share."""

    height_px: pydantic.PositiveInt = 224
    """Height of the model's input, in pixels."""
    width_px: pydantic.PositiveInt = 224
    """Width of the model's input, in pixels."""
    channels: Literal[1, 3] = 3
    """3 for RGB, 1 for grayscale."""
    crop_fraction: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Share of the resized image that the centre crop keeps, per side (often 0.875 on ImageNet)."""
