"""Progress of a Beam job whose workers are elsewhere: its counters, read while it runs.

Stages on this machine count in its memory (`components.progress`). A worker elsewhere has its own,
so the job also counts with Beam's metrics, and what the runner reports of them is shown here. How
soon depends on the runner: some report only when the job has ended.
"""

import collections
import contextlib
import threading
from collections.abc import Iterator

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.runners.runner import PipelineResult

from image_pipeline.components import progress

_NAMESPACE = "image_pipeline"
_TOTAL, _DONE, _BAD = "images_listed", "images_done", "images_quarantined"
_SKIPPED = "images_skipped"
_EVERY_S = 5.0


def count(listed: int = 0, done: int = 0, bad: int = 0, skipped: int = 0) -> None:
    """Adds to the job's counters: files to be read, and what became of them."""
    added = {_TOTAL: listed, _DONE: done, _BAD: bad, _SKIPPED: skipped}
    for name, number in added.items():
        if number:
            Metrics.counter(_NAMESPACE, name).inc(number)


@contextlib.contextmanager
def watch_counters(root: beam.Pipeline, every_s: float = _EVERY_S) -> Iterator[None]:
    """Shows a job's counters as progress while the block runs it."""
    ended = threading.Event()

    def watch() -> None:
        # Beam sets a pipeline's result when the runner accepts the job, or only at the job's end.
        while not ended.wait(every_s) and show_counters(getattr(root, "result", None)):
            pass

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
        show_counters(root.result)
    finally:
        ended.set()
        thread.join(every_s)


def show_counters(result: PipelineResult | None) -> bool:
    """Shows a job's counters as they are now; tells whether it is worth reading them again."""
    if result is None:
        return True
    counts = collections.Counter[str]()  # Of all steps, by name.
    try:
        if hasattr(result, "_metrics"):
            result._metrics = None  # Beam's portable result caches its first answer.
        found = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))
        for counter in found["counters"]:
            counts[counter.key.metric.name] += counter.result or 0
    except Exception:  # Any error: no job should fail because a number is missing.
        return False
    if not counts:  # A job of TFX's own components, whose progress is counted elsewhere.
        return True
    current = progress.look()
    total = counts[_TOTAL] or (0 if current is None else current.total)
    if total:
        done = (counts[_DONE], counts[_BAD], counts[_SKIPPED])
        progress.reach(progress.Progress("images", total, *done))
    return True
