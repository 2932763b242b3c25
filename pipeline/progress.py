"""Shows which component runs, and what each took."""

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.local import ComponentRun


class ComponentProgress:
    """A line for each finished component and, in a terminal, a spinner for the one that runs."""

    def __init__(self, console: "Console | None"):
        """Takes the console to write to, or None to stay silent."""
        self._console = console
        self._status: Any = None

    def __enter__(self) -> "ComponentProgress":
        """Shows nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Takes the spinner away."""
        self._stop()

    def start(self, name: str) -> None:
        """Shows that something named runs."""
        self._stop()
        if self._console:
            self._status = self._console.status(f"{name} …")
            self._status.start()

    def finish(self, run: "ComponentRun") -> None:
        """Shows what a component took."""
        self._stop()
        if self._console:
            reused = "  [dim]reused[/dim]" if run.reused else ""
            self._console.print(
                f"  {run.name:<18}{run.seconds:7.1f} s {run.peak_rss_mb:7,.0f} MB peak{reused}"
            )

    def _stop(self) -> None:
        if self._status:
            self._status.stop()
            self._status = None
