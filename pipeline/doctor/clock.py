"""How fast batches come: wall time and processor time."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Iterable, Sequence

import psutil

# Fewer batches give no reliable rate: batches made in parallel come in bursts.
_LEAST_BATCHES = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rate:
    """The time that some images took.

    Attributes:
      images: number of images.
      wall_s: seconds of wall-clock time.
      cpu_s: seconds of processor time, of all the process's threads together.
    """

    images: int
    wall_s: float
    cpu_s: float

    @property
    def images_per_s(self) -> float:
        """Images a second."""
        return self.images / self.wall_s

    @property
    def ms_an_image(self) -> float:
        """Milliseconds from an image to the next."""
        return 1e3 * self.wall_s / self.images

    @property
    def cpu_ms_an_image(self) -> float:
        """Milliseconds of processor time an image."""
        return 1e3 * self.cpu_s / self.images


def time_batches(
    sizes: Iterable[int], seconds: float, warm_up: int = 2, least: int = _LEAST_BATCHES
) -> Rate:
    """Takes batches for some time.

    Args:
      sizes: yields each batch's number of images when the batch is ready.
      seconds: when to stop, if there have been `least` batches.
      warm_up: batches before the clock starts: the first one opens and compiles, and others may be
        ready. It ends early if they take longer than `seconds` after the first one.
      least: how many batches to take at least, if there are enough.

    Raises:
      ValueError: if no batch comes after those of the warm-up.
    """
    batches = iter(sizes)
    for number, _ in enumerate(itertools.islice(batches, warm_up)):
        if number == 0:
            first_s = time.perf_counter()
        elif time.perf_counter() - first_s > seconds:
            break
    images, count = 0, 0
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    for size in batches:
        images, count = images + size, count + 1
        wall_s = time.perf_counter() - start_s
        if wall_s >= seconds and count >= least:
            break
    if not images:
        raise ValueError(f"there must be more than {warm_up} batches, the warm-up; give more.")
    return Rate(images=images, wall_s=wall_s, cpu_s=time.process_time() - start_cpu_s)


def middle_rate(rates: Sequence[Rate]) -> Rate:
    """A rate whose times per image are the medians of these, for wall and processor separately."""
    images = sum(rate.images for rate in rates)
    return Rate(
        images=images,
        wall_s=images * statistics.median(rate.wall_s / rate.images for rate in rates),
        cpu_s=images * statistics.median(rate.cpu_s / rate.images for rate in rates),
    )


class OtherPrograms:
    """The share of the processor that other programs have used since this was created."""

    def __init__(self) -> None:
        """Starts."""
        self._start = self._read()

    def read_share(self) -> float:
        """The share of all cores that went to others, 0 to 1."""
        spent, busy_s, own_s = (
            now - then for now, then in zip(self._read(), self._start, strict=True)
        )
        return max(0.0, busy_s - own_s) / spent if spent else 0.0

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Seconds of all cores, busy seconds, and seconds of this process."""
        times = psutil.cpu_times()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        return sum(times), sum(times) - idle_s, time.process_time()
