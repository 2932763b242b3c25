"""Options for the model's view of an image."""

from typing import Literal

import pydantic

from image_pipeline.components.options import Options, leave_out_unset


class ViewOptions(Options):
    """The deterministic view of an image that analysis, evaluation and serving share."""

    height_px: pydantic.PositiveInt = 224
    """Height of the model's input, in pixels."""
    width_px: pydantic.PositiveInt = 224
    """Width of the model's input, in pixels."""
    channels: pydantic.PositiveInt = pydantic.Field(default=3, le=255)
    """3 for RGB, 1 for grayscale; any other number has to be that of the stored images."""
    dtype: Literal["uint8", "float32"] = "uint8"
    """Type of the pixels that the analysis, the transform graph and serving get. `float32` for data
    sets of another `ingest.prepare.dtype` than uint8: every stored value is a float32 exactly."""
    crop_fraction: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Share of the resized image that the centre crop keeps, per side (often 0.875 on ImageNet)."""

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict:
        return leave_out_unset(dump(self), self, ("dtype",))

    @property
    def pixel_bytes(self) -> int:
        """Size of one value, in bytes."""
        return 1 if self.dtype == "uint8" else 4


def resized_size(size: tuple[int, int], view: ViewOptions) -> tuple[int, int]:
    """The height and width, in pixels, to which `eval_view` resizes an image of this size."""
    target = (view.height_px, view.width_px)
    scale = max(
        wanted / view.crop_fraction / side for wanted, side in zip(target, size, strict=True)
    )
    height, width = (
        max(round(side * scale), wanted) for wanted, side in zip(target, size, strict=True)
    )
    return height, width
