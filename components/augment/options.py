"""Options of the random steps, and the list of steps in a configuration."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from image_pipeline.components.messages import suggest
from image_pipeline.components.options import Options
from image_pipeline.components.rules import Rule

SizePx = Annotated[int, pydantic.Field(gt=0, le=65_535)]
Level = Annotated[int, pydantic.Field(ge=0, le=255)]
Share = Annotated[float, pydantic.Field(ge=0, le=1)]
# Of the view's shorter side, for lengths that look alike at any resolution.
SideShare = Annotated[float, pydantic.Field(gt=0, le=1)]
# What a step may need of pixels.
LEVELS, COLORS = "levels from 0 to 255", "gray or RGB"
# How far a factor may lie from 1, both ways.
Strength = Annotated[float, pydantic.Field(ge=0)]


def _check_range(given: tuple[float, float], info: pydantic.ValidationInfo) -> tuple[float, float]:
    if not 0 < given[0] <= given[1]:
        raise ValueError(
            f"{info.field_name} must be two positive numbers, the lesser first, got {list(given)}."
        )
    return given


def _check_area(given: tuple[float, float]) -> tuple[float, float]:
    if given[1] > 1:
        raise ValueError(f"area is a share of the image and at most 1, got {given[1]}.")
    return given


Range = Annotated[tuple[float, float], pydantic.AfterValidator(_check_range)]
Area = Annotated[Range, pydantic.AfterValidator(_check_area)]


def _one_length(share: str, pixels: str) -> Rule:
    """That a length is not given twice, as a share and in pixels."""
    return Rule(
        lambda options: options.is_set(pixels) and options.is_set(share),
        f"{share} and {pixels} are two ways to give one length, got {{options.{share}}} and "
        f"{{options.{pixels}}}; leave out one of them.",
    )


def _share_px(share: float, height: int, width: int) -> int:
    """A share of the shorter side in whole pixels, at least one."""
    return max(1, round(share * min(height, width)))


class RandomStep(Options):
    """A random step: the function of its name is in the file of this folder that has its like."""

    op: str
    needs: ClassVar[Sequence[str]] = ()
    """What it cannot do without: `LEVELS`, `COLORS`."""


class RandomResizedCrop(RandomStep):
    """Crops a random area and aspect ratio, then resizes it to the view. Only as the first step."""

    op: Literal["random_resized_crop"] = "random_resized_crop"
    area: Area = (0.08, 1.0)
    """Smallest and largest share of the area that a crop keeps."""
    aspect: Range = (3 / 4, 4 / 3)
    """Smallest and largest width / height of a crop."""


class PadAndCrop(RandomStep):
    """Pads every side, then takes the view's size out of it at random."""

    op: Literal["pad_and_crop"] = "pad_and_crop"
    pad: SideShare = 0.125
    """What is added on every side, and so the farthest that the image is shifted, as a share of the
    view's shorter side, rounded to whole pixels, at least one: 4 of 32, 28 of 224."""
    pad_px: SizePx | None = None
    """The same in pixels, instead of `pad`."""
    mode: Literal["reflect", "constant"] = "reflect"
    """What the padding shows: the image mirrored at its edge, or `fill`."""
    fill: Level = 0
    """Level of constant padding. A mask is padded with 255, no class."""

    rules = (_one_length("pad", "pad_px"),)

    def find_pad_px(self, height: int, width: int) -> int:
        """The padding of images of this size, in pixels."""
        return self.pad_px or _share_px(self.pad, height, width)


class FlipHorizontal(RandomStep):
    """Mirrors left to right. Leave it out where sides matter (digits, text)."""

    op: Literal["flip_horizontal"] = "flip_horizontal"
    probability: Share = 0.5
    """Share of the images that it changes."""


class FlipVertical(RandomStep):
    """Mirrors top to bottom."""

    op: Literal["flip_vertical"] = "flip_vertical"
    probability: Share = 0.5
    """Share of the images that it changes."""


class Rotate(RandomStep):
    """Rotates about the centre by a uniform angle, bilinearly; the size stays the same."""

    op: Literal["rotate"] = "rotate"
    degrees: Annotated[float, pydantic.Field(gt=0, le=180)] = 15.0
    """Largest angle, in either direction."""
    mode: Literal["reflect", "constant"] = "constant"
    """What comes in from outside: the image mirrored at its edge, or `fill`."""
    fill: Level = 0
    """Level of what comes in from outside, with `constant`. A mask gets 255, no class."""


class Cutout(RandomStep):
    """Blackens a square at a random place; part of it may lie outside (DeVries and Taylor)."""

    op: Literal["cutout"] = "cutout"
    size: SideShare = 0.25
    """Side of the square as a share of the view's shorter side, rounded to whole pixels, at least
    one: 8 of 32, 56 of 224."""
    size_px: SizePx | None = None
    """The same in pixels, instead of `size`."""
    fill: Level = 0
    """Level of the square, before normalising: 0 is black, not the mean."""

    rules = (_one_length("size", "size_px"),)

    def find_size_px(self, height: int, width: int) -> int:
        """The square's side in images of this size, in pixels."""
        return self.size_px or _share_px(self.size, height, width)


class RandomErasing(RandomStep):
    """Erases a rectangle of a random area and aspect ratio (Zhong et al.)."""

    op: Literal["random_erasing"] = "random_erasing"
    probability: Share = 0.5
    """Share of the images that it changes."""
    area: Area = (0.02, 0.33)
    """Smallest and largest share of the area that is erased."""
    aspect: Range = (0.3, 3.3)
    """Smallest and largest height / width of the rectangle, as torchvision defines it here."""
    fill: Level = 0
    """Level of the rectangle."""


class ColorJitter(RandomStep):
    """Changes brightness, contrast, saturation and hue, in this order."""

    needs = (LEVELS, COLORS)
    op: Literal["color_jitter"] = "color_jitter"
    brightness: Strength = 0.0
    """Factors of the levels are uniform in [1 - brightness, 1 + brightness], but not below 0."""
    contrast: Strength = 0.0
    """The same for the difference from the image's mean gray."""
    saturation: Strength = 0.0
    """The same for the difference of each pixel from its own gray."""
    hue: Annotated[float, pydantic.Field(ge=0, le=0.5)] = 0.0
    """Largest shift of the hue, in either direction, as a share of the full circle."""
    probability: Share = 1.0
    """Share of the images that it changes."""


class Grayscale(RandomStep):
    """Turns colour to gray (three equal channels)."""

    needs = (LEVELS, COLORS)
    op: Literal["grayscale"] = "grayscale"
    probability: Share = 0.1
    """Share of the images that it changes."""


class GaussianBlur(RandomStep):
    """Blurs with a Gaussian of random width."""

    needs = (LEVELS,)
    op: Literal["gaussian_blur"] = "gaussian_blur"
    sigma_px: Range = (0.1, 2.0)
    """Smallest and largest standard deviation, in pixels; uniform between them."""
    probability: Share = 0.5
    """Share of the images that it changes."""


class RandAugment(RandomStep):
    """Applies several random steps from a list, all at one magnitude (Cubuk et al.)."""

    needs = (LEVELS, COLORS)
    op: Literal["rand_augment"] = "rand_augment"
    steps: Annotated[int, pydantic.Field(gt=0, le=20)] = 2
    """How many steps are applied to an image, each drawn separately."""
    magnitude: Annotated[float, pydantic.Field(ge=0, le=10)] = 3.0
    """From 0, almost no change, to 10. (torchvision's scale goes to 30, with 9 as its default.)"""
    fill: Level = 0
    """Level of what comes in from outside when the image is rotated, sheared or shifted."""


class Mixup(RandomStep):
    """Blends each image and its label with another of its batch (Zhang et al.)."""

    op: Literal["mixup"] = "mixup"
    alpha: pydantic.PositiveFloat = 0.2
    """Shares are drawn from Beta(alpha, alpha): small values keep most images nearly whole."""
    probability: Share = 1.0
    """Share of the images that it changes."""


class CutMix(RandomStep):
    """Pastes a rectangle of another image of the batch into each; labels by area (Yun et al.)."""

    op: Literal["cutmix"] = "cutmix"
    alpha: pydantic.PositiveFloat = 1.0
    """Shares are drawn from Beta(alpha, alpha)."""
    probability: Share = 1.0
    """Share of the images that it changes."""


class UserStep(Options):
    """A function of your own."""

    op: str
    """Its dotted path. It takes images of `view.dtype` [batch, height, width, channels] and uint64
    keys [batch] (see `components.augment.draws.uniform`), and returns images of the same shape."""
    arguments: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Additional arguments, by name."""


def _lacking(steps: Sequence[Options], view: Any) -> tuple[str, str, str] | None:
    """A step that a view's pixels do not allow, what it needs, and what there is instead."""
    lacks, has = LEVELS, f"view.dtype={view.dtype}"
    if view.dtype == "uint8":
        lacks, has = COLORS if view.channels not in (1, 3) else "", f"view.channels={view.channels}"
    needing = (s for s in steps if isinstance(s, RandomStep) and lacks in s.needs)
    return next(((step.op, lacks, has) for step in needing), None)


RULES = (
    Rule(
        lambda steps, view: _lacking(steps, view),
        "feeding.augment has {found[0]}, which needs {found[1]}, but {found[2]}; leave it out, or "
        "name a function of your own.",
    ),
)
"""What random steps cannot do, of the `steps` of feeding and the `view`."""


STEPS: dict[str, type[RandomStep]] = {
    step.model_fields["op"].default: step
    for step in (
        RandomResizedCrop,
        PadAndCrop,
        FlipHorizontal,
        FlipVertical,
        Rotate,
        Cutout,
        RandomErasing,
        ColorJitter,
        Grayscale,
        GaussianBlur,
        RandAugment,
        Mixup,
        CutMix,
    )
}


def read_step(value: Any) -> Options:
    """Makes options from an entry of a configuration's list of steps.

    Args:
      value: a step's name, a dotted path, a mapping with its name or dotted path as "op", or
        options.

    Raises:
      ValueError: if there is no such step.
    """
    if isinstance(value, Options) and type(value) in (UserStep, *STEPS.values()):
        return value
    settings = {"op": value} if isinstance(value, str) else value
    if not isinstance(settings, Mapping) or not isinstance(settings.get("op"), str):
        raise ValueError(
            f"a step must be a name, or a mapping with the name as op, got {value!r}; write for "
            "example flip_horizontal, or {op: cutout, size: 0.5}."
        )
    name = settings["op"]
    if "." not in name and name not in STEPS:
        raise ValueError(
            f"op must be a dotted path or one of {', '.join(STEPS)}, got {name!r}"
            f"{_nearest(name, STEPS)}"
        )
    kind: type[Options] = UserStep if "." in name else STEPS[name]
    for key in map(str, settings.keys() - kind.model_fields.keys()):
        known = [name for name in kind.model_fields if name != "op"]
        raise ValueError(
            f"{name} has no option {key!r}, only {', '.join(known)}{_nearest(key, known)}"
        )
    return kind.model_validate(settings)


def _nearest(name: str, known: Iterable[str]) -> str:
    hint = suggest(name, known)
    return f"; {hint.rstrip()}" if hint else "."


def _check_list(steps: Any) -> Any:
    if not isinstance(steps, list | tuple):
        raise ValueError(
            f"augment must be a list of steps, got {steps!r}; write for example "
            "[random_resized_crop, {op: cutout, size: 0.5}]."
        )
    return steps


def _check_order(steps: tuple[Options, ...]) -> tuple[Options, ...]:
    if any(isinstance(step, RandomResizedCrop) for step in steps[1:]):
        raise ValueError(
            "random_resized_crop must be the first step, and come once: it is made while the "
            "image is decoded; move it to the front."
        )
    return steps


Step = Annotated[pydantic.SerializeAsAny[Options], pydantic.BeforeValidator(read_step)]
Steps = Annotated[
    tuple[Step, ...], pydantic.BeforeValidator(_check_list), pydantic.AfterValidator(_check_order)
]
"""Steps of augmentation, in their order."""
