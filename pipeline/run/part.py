"""A part of the pipeline: the components from one to another."""

import dataclasses
from collections.abc import Sequence

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest


@dataclasses.dataclass(frozen=True)
class Part:
    """Which components run; what comes before them is taken from the latest run.

    Attributes:
      first: runs, and all that needs it; None for all that `last` needs.
      last: runs, and what it needs; None for all that needs `first`.
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
      part: the part to run.
      components: names of the pipeline's components.

    Raises:
      UserError: if one of its ends is not a component.
    """
    for flag, name in (("--from", part.first), ("--to", part.last)):
        if name is not None and name not in components:
            raise UserError(
                f"{flag} names a component, got {name!r}; {suggest(name, components, most=3)}"
                f"known: {', '.join(components)}."
            )


def explain_part(error: BaseException, part: Part, started: bool) -> UserError | None:
    """Explains TFX's error that no earlier run has what a part needs; None for other errors.

    Args:
      error: the error that ended the run.
      part: the part that was to run.
      started: whether any component has started: its errors are its own.
    """
    if part.first is None or started or not isinstance(error, LookupError):
        return None
    return UserError(
        f"--from {part.first} takes what comes before it from the latest run in the same --output, "
        "but the latest run there does not have all of it; run once without --from."
    )


def check_any_ran(part: Part, ran: int) -> None:
    """Raises UserError if a part has no component."""
    if not ran:
        raise UserError(
            f"No component lies between --from {part.first} and --to {part.last}: no data goes "
            "from one to the other; change one of them, or leave it out."
        )
