"""A part of the pipeline: the components from one to another."""

import dataclasses
from collections.abc import Sequence

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest


@dataclasses.dataclass(frozen=True)
class Part:
    """Which components run; what comes before them is taken from the latest run.

    Attributes:
      first: runs, and what needs it; None for all that `last` needs.
      last: runs, and what it needs; None for all that need `first`.
    """

    first: str | None = None
    last: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether that is the whole pipeline."""
        return self.first is None and self.last is None


def check_part(part: Part, components: Sequence[str]) -> None:
    """Checks that a part's ends exist.

    Args:
      part: which is to run.
      components: the pipeline's.

    Raises:
      UserError: if one of its ends is no component.
    """
    for flag, name in (("--from", part.first), ("--to", part.last)):
        if name is not None and name not in components:
            raise UserError(
                f"{flag} names a component, got {name!r}; {suggest(name, components, most=3)}"
                f"there are: {', '.join(components)}."
            )


def explain_part(error: BaseException, part: Part, started: bool) -> UserError | None:
    """TFX's error that no earlier run has what a part needs, in words; None for other errors.

    Args:
      error: that ended the run.
      part: that was to run.
      started: whether any component has: what it raises is its own.
    """
    if part.first is None or started or not isinstance(error, LookupError):
        return None
    return UserError(
        f"--from {part.first} takes what comes before it from the latest run in the same --output, "
        "but no run there has all of it, or the latest ended before; run once without --from."
    )


def check_any_ran(part: Part, ran: int) -> None:
    """Raises UserError if a part holds no component."""
    if not ran:
        raise UserError(
            f"No component lies between --from {part.first} and --to {part.last}: data do not go "
            "from the one to the other; change one of them, or leave it out."
        )
