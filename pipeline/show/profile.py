"""A trace of training, told to a person."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from image_pipeline.show.words import format_count


def print_profile(profile: Mapping[str, Any], console: Console) -> None:
    """Prints where the trace is, and its slowest operations.

    Args:
      profile: a `components.training.profile.Profile` as a dict.
      console: where to.
    """
    steps = format_count(profile["steps"], "step")
    size = f"{profile['size_bytes'] / 1e6:,.1f} MB"
    console.print(
        f"\nThe trace of {steps} ({size}) is in {escape(profile['folder'])}: "
        "tensorboard --logdir shows it, with the plugin tensorboard-plugin-profile.",
        soft_wrap=True,
    )
    console.print("[bold]slowest operations[/bold] (time of their own, of all threads together)")
    for op in profile["slowest"]:
        line = f"{op['self_ms']:9,.1f} ms {op['calls']:6,} x  {op['kind']:<28} {op['name']}"
        console.print(escape(line), soft_wrap=True)
