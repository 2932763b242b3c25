"""Training's random steps in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.options import Options


def describe_steps(steps: Sequence[Options]) -> list[str]:
    """One line a step: its name, and its options by name."""
    return [_describe_step(step) for step in steps] or ["no random steps"]


def name_steps(steps: Sequence[Mapping[str, Any]]) -> str:
    """The names of steps as a configuration or `History` has them."""
    return ", ".join(step["op"] for step in steps) or "none"


def _describe_step(step: Options) -> str:
    options = step.model_dump(mode="json", exclude_none=True)
    name = options.pop("op")
    if isinstance(step, UserStep):
        options = options["arguments"]
    _leave_out_other_length(options)
    return " ".join([name, ", ".join(f"{key} {_short(options[key])}" for key in options)]).strip()


def _leave_out_other_length(options: dict[str, Any]) -> None:
    """A length that is given in pixels is none as a share."""
    for name in [name for name in options if f"{name}_px" in options]:
        del options[name]


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(map(_short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
