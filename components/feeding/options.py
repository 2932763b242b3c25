"""Options of the way training reads records."""

import pydantic

from components.options import Options


class AugmentOptions(Options):
    """Random views, made for training batches only."""

    flip: bool = True
    """Mirror left to right with probability 1/2. Switch off where sides matter (digits, text)."""
    random_resized_crop: bool = True
    """Crop a random area and aspect ratio, then resize, instead of the centre view."""
    crop_area: tuple[float, float] = (0.08, 1.0)
    """Least and greatest share of the area that a random crop keeps (torchvision's default)."""
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    """Least and greatest width / height of a random crop."""

    @pydantic.model_validator(mode="after")
    def _check_bounds(self) -> "AugmentOptions":
        for name in ("crop_area", "crop_aspect"):
            least, greatest = getattr(self, name)
            if not 0 < least <= greatest:
                raise ValueError(
                    f"{name} must be two positive numbers, the lesser first, "
                    f"got [{least}, {greatest}]; set augment.{name}."
                )
        if self.crop_area[1] > 1:
            raise ValueError(
                f"crop_area is a share of the image and at most 1, got {self.crop_area[1]}; "
                "set augment.crop_area."
            )
        return self


class FeedingOptions(Options):
    """How `input_fn` reads shards."""

    batch_size: pydantic.PositiveInt = 64
    """Records a batch."""
    drop_remainder: bool = False
    """Leave out the records of an epoch's last, smaller batch. Training only; gives every batch the
    same shape, which TPUs and compiled training steps want."""
    shuffle_records: pydantic.PositiveInt = 10_000
    """Encoded records in the shuffle window; shards are shuffled already, so a window is enough."""
    files_at_once: pydantic.PositiveInt = 16
    """Shards read side by side by the interleave (fewer, if there are fewer)."""
    augment: AugmentOptions = AugmentOptions()
