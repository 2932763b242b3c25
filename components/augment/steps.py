"""The list of random steps in a configuration: the steps that exist, and how to write them."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic

from image_pipeline.components.augment.options import (
    ColorJitter,
    CutMix,
    Cutout,
    FlipHorizontal,
    FlipVertical,
    GaussianBlur,
    Grayscale,
    Mixup,
    PadAndCrop,
    RandAugment,
    RandomErasing,
    RandomResizedCrop,
    Rotate,
    UserStep,
)
from image_pipeline.components.messages import suggest
from image_pipeline.components.options import Options

STEPS: dict[str, type[Options]] = {
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
