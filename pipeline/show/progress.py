"""Shows which component runs, its progress, and how long each took."""

import collections
import threading
import time
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

from image_pipeline.components import progress
from image_pipeline.components.names import printable, printable_text
from image_pipeline.interrupts import was_interrupted

if TYPE_CHECKING:
    from rich.console import Console

    from image_pipeline.tfx_metadata import ComponentRun

_LINE_EVERY_S = 5.0  # a line of text, where no bar can be drawn
_DRAW_EVERY_S = 0.2
_SLOW_S = 5.0  # a file that takes longer to read is named
# Speed is measured over the last so many seconds; the end is estimated from at least this many, or
# this share of the total.
_WINDOW_S = 30.0
_ENOUGH = 10
_ENOUGH_SHARE = 0.05


class ComponentProgress:
    """A bar, or a line every few seconds, for what runs; a line for each finished component.

    What counts its work in `components.progress` is shown with that; other work (TFX's own
    components) with the time taken so far.
    """

    def __init__(self, console: "Console | None", line_every_s: float = _LINE_EVERY_S):
        """Takes the console to write to; without one, or if that is quiet, it stays silent."""
        self._console = None if console is None or console.quiet else console
        self._line_every_s = line_every_s
        self._stopped: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "ComponentProgress":
        """Shows nothing until the first component starts."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Removes the bar."""
        self._stop()

    def start(self, name: str) -> None:
        """Shows that something is running."""
        self._stop()
        if self._console:
            show = self._draw_bar if self._console.is_terminal else self._print_lines
            self._stopped = threading.Event()
            self._thread = threading.Thread(target=show, args=(name, self._stopped), daemon=True)
            self._thread.start()

    def finish(self, run: "ComponentRun") -> None:
        """Shows what a component took."""
        self._stop()
        if self._console:
            took = f"  {run.name:<18}{run.seconds:7.1f} s {run.peak_rss_mb:7,.0f} MB peak"
            why = printable_text(run.why)
            self._console.print(f"{took}  {why}" if why else took, soft_wrap=True, markup=False)

    def _stop(self) -> None:
        if self._stopped and self._thread:
            self._stopped.set()
            self._thread.join()
            self._stopped = self._thread = None
        progress.end()

    def _print_lines(self, name: str, stopped: threading.Event) -> None:
        """Prints the progress every few seconds, until the work has ended."""
        assert self._console is not None
        speed = Speed()
        while not stopped.wait(self._line_every_s) and not was_interrupted():
            told = speed.describe(progress.look())
            self._console.print(f"  {name:<18}{told}", soft_wrap=True, markup=False)

    def _draw_bar(self, name: str, stopped: threading.Event) -> None:
        """Draws a bar until the work has ended, then removes it."""
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        told = TextColumn("{task.fields[told]}", markup=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), told)
        speed = Speed()
        with Progress(
            *columns,
            console=self._console,
            transient=True,
            # What libraries write goes to the log; Rich would show it above the bar.
            redirect_stdout=False,
            redirect_stderr=False,
        ) as bar:
            task = bar.add_task(name, total=None, told="")
            while not stopped.wait(_DRAW_EVERY_S) and not was_interrupted():
                now = progress.look()
                done, total = (now.done, now.total or None) if now else (0, None)
                bar.update(task, completed=done, total=total, told=speed.describe(now))


class Speed:
    """Says how fast counted work has been going lately, and when it will end.

    The time before the first count is left out: a model may be loaded, or a graph compiled. The
    first records may be slow for such reasons, too, so they drop out in time, and the end is
    estimated once there are enough records.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """The work begins now."""
        self._clock = clock
        self._started_s = clock()
        self._seen: collections.deque[tuple[float, progress.Progress]] = collections.deque()

    def describe(self, now: "progress.Progress | None") -> str:
        """The progress in words; the seconds elapsed if nothing is counted."""
        moment_s = self._clock()
        told = f"{moment_s - self._started_s:,.0f} s"
        if now is not None:
            self._see(moment_s, now)
            since_s, first = self._seen[0]
            told = describe_progress(now, now.done - first.done, moment_s - since_s)
        slow = progress.look_slow(_SLOW_S)
        return told if slow is None else f"{told}; {printable(slow[0])} for {slow[1]:,.0f} s"

    def _see(self, moment_s: float, now: "progress.Progress") -> None:
        """Keeps the latest counts of this piece of work, enough to measure the speed."""
        seen = self._seen
        if seen and (seen[-1][1].unit, seen[-1][1].total) != (now.unit, now.total):
            seen.clear()
        if len(seen) == 1 and seen[0][1].done == now.done:
            seen.clear()  # Nothing has been counted yet.
        seen.append((moment_s, now))
        while len(seen) > 2 and (
            moment_s - seen[1][0] >= _WINDOW_S and now.done - seen[1][1].done >= _ENOUGH
        ):
            seen.popleft()


def describe_progress(now: "progress.Progress", done: int, seconds: float) -> str:
    """The progress, the speed, and how long the rest will take.

    Args:
      now: the current progress.
      done: how many were done in the last `seconds`, from which the speed is computed.
      seconds: wall-clock time.
    """
    of = f" of {now.total:,}" if now.total else ""  # Of a generator, nobody knows.
    parts = [f"{now.done:,}{of} {now.unit}"]
    if done > 0 and seconds > 0:
        rate = done / seconds
        parts.append(_describe_rate(rate))
        if now.done < now.total and done >= min(_ENOUGH, _ENOUGH_SHARE * now.total):
            parts.append(f"{_clock((now.total - now.done) / rate)} left")
    if now.bad:
        parts.append(f"{now.bad:,} quarantined")
    if now.skipped:
        parts.append(f"{now.skipped:,} skipped")
    parts += [now.told] if now.told else []
    return ", ".join(parts)


def _describe_rate(rate: float) -> str:
    if rate < 1:
        return f"{60 * rate:.1f}/min"
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def _clock(seconds: float) -> str:
    """A time as 0:05, 12:34 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
