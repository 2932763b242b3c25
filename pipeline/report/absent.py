"""Why sections of the page show nothing."""

from collections.abc import Callable
from typing import TypeVar

from image_pipeline.components.errors import UserError

T = TypeVar("T")


class Absent(dict[str, str]):
    """Why each section that shows nothing does not, by its name."""

    def ask(self, read: Callable[[], T], *sections: str) -> T | None:
        """What is read; None if that cannot be, with why for the sections that would show it."""
        try:
            return read()
        except UserError as error:
            self.update(dict.fromkeys(sections, str(error)))
            return None
