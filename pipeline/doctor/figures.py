"""What the doctor finds, in the types that `--json` prints; and the clocks that it comes from."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import psutil
import pydantic

from image_pipeline.components.feeding.budget import Stage as MemoryStage

# Fewer batches give no reliable rate: batches made in parallel come in bursts.
_LEAST_BATCHES = 4
_Positive = Annotated[float, pydantic.Field(gt=0)]  # Of 0, there would be no ratio.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rate:
    """How fast images come.

    Attributes:
      images: how many were timed.
      images_per_s: images a second, by the clock on the wall.
      cpu_s_an_image: seconds of processor time an image, of all the process's threads together.
    """

    images: int
    images_per_s: _Positive
    cpu_s_an_image: float

    @property
    def ms_an_image(self) -> float:
        """Milliseconds from an image to the next."""
        return 1e3 / self.images_per_s


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageRate(Rate):
    """How fast a stage of the input is, together with all before it.

    Attributes:
      own_ms_an_image: what it costs itself: what it adds to the time or, if it adds nothing because
        it works while another one is waited for, its processor time over all cores.
    """

    own_ms_an_image: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stages:
    """What was timed.

    Attributes:
      read_cold: reading alone, with nothing cached by the operating system; None if that is not
        possible.
      every_image: the input's stages in an epoch that reads and decodes every image, in their
        order: name to rate.
      held: those of later epochs, which take images from memory; empty if none do.
      step: the model's step alone.
    """

    read_cold: Rate | None
    every_image: Annotated[Mapping[str, StageRate], pydantic.Field(min_length=1)]
    held: Mapping[str, StageRate]
    step: Rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Storage:
    """How the sampled images are stored; means per image.

    Attributes:
      encoding: "jpeg", "png" or "raw": the most frequent one.
      view_bytes: size of the model's view of it.
    """

    encoding: str
    stored_bytes: float
    pixel_bytes: float
    view_bytes: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """All that was measured.

    Attributes:
      others_share: share of the processor that other programs used meanwhile.
      cores: the processor's number of cores.
      together_ms: from one step to the next in training.
      wait_ms: how long of that the model waits for its batch.
      steps_a_call: how many steps of the model Keras makes in one call.
      calls: numbers of steps in a call to images per second of the model alone; empty if steps are
        so long that it cannot matter.
      memory: what the input holds in memory, stage by stage.
      could_hold: whether all decoded images would fit into the memory allowed for them.
    """

    stages: Stages
    others_share: float
    batch_size: int
    cores: int
    together_ms: _Positive
    wait_ms: float
    steps_a_call: int
    calls: Mapping[int, float]
    storage: Storage
    memory: Sequence[MemoryStage]
    could_hold: bool

    @property
    def usual(self) -> Mapping[str, StageRate]:
        """The input's stages in most epochs."""
        return self.stages.held or self.stages.every_image

    @property
    def input_ms(self) -> float:
        """From one batch to the next in most epochs, without a model."""
        return list(self.usual.values())[-1].ms_an_image * self.batch_size

    @property
    def step_ms(self) -> float:
        """Duration of the model's step alone."""
        return self.stages.step.ms_an_image * self.batch_size


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
        raise ValueError(f"more batches are needed than the {warm_up} of the warm-up; give more.")
    cpu_s = time.process_time() - start_cpu_s
    return Rate(images=images, images_per_s=images / wall_s, cpu_s_an_image=cpu_s / images)


def middle_rate(rates: Sequence[Rate]) -> Rate:
    """The medians of rates, for wall and processor separately."""
    return Rate(
        images=sum(rate.images for rate in rates),
        images_per_s=statistics.median(rate.images_per_s for rate in rates),
        cpu_s_an_image=statistics.median(rate.cpu_s_an_image for rate in rates),
    )


def tell_own(rates: Mapping[str, Rate], cores: int) -> dict[str, StageRate]:
    """Tells what each stage costs itself, of rates that are each measured with all before it.

    A stage with all before it cannot take longer than a later one with all before that; such noise
    is left out, so that no cost is negative.
    """
    stages, before_ms, before_cpu_s = {}, 0.0, 0.0
    for number, (name, rate) in enumerate(rates.items()):
        rest = list(rates.values())[number:]
        least_ms = min(each.ms_an_image for each in rest)
        least_cpu_s = min(each.cpu_s_an_image for each in rest)
        own_ms = max(least_ms - before_ms, 1e3 * (least_cpu_s - before_cpu_s) / cores)
        stages[name] = StageRate(**vars(rate), own_ms_an_image=own_ms)
        before_ms, before_cpu_s = least_ms, least_cpu_s
    return stages


def read_clocks() -> tuple[float, float, float]:
    """Seconds that cores have spent: all of them, the busy ones, and those of this process."""
    times = psutil.cpu_times()
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    return sum(times), sum(times) - idle_s, time.process_time()


def share_of_others(then: Sequence[float], now: Sequence[float]) -> float:
    """The share of all cores that other programs used between two readings, 0 to 1."""
    spent_s, busy_s, own_s = (after - before for before, after in zip(then, now, strict=True))
    return max(0.0, busy_s - own_s) / spent_s if spent_s else 0.0
