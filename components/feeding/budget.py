"""What the input pipeline holds in memory, stage by stage, computed before anything is read."""

import dataclasses
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal

import psutil

from image_pipeline.components.dataset.paths import ROWS
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.threads import usable_cores
from image_pipeline.components.views.options import ViewOptions

_ROOT = pathlib.Path("/sys/fs/cgroup")
# Lines such as "0::/group" (version 2) or "4:memory:/group" (version 1).
_OWN_GROUPS = pathlib.Path("/proc/self/cgroup")

# More batches in parallel would keep more cores busy, but each takes memory.
_MOST_BATCHES = 8
# The batch that the model works on, and the one that it is handed before it lets go of that.
_WITH_THE_MODEL = 2
# TensorFlow's allocator keeps what it once had; the gaps between batches are a quarter of them.
_GAPS = 1.25
# What the views are for: an analysis takes no random steps, and has no floats.
Use = Literal["train", "eval", "analysis"]
_PIXEL_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage's share.

    Attributes:
      name: the stage's name.
      size_bytes: about how much it holds.
      made_of: how that is computed, with the options that decide it.
    """

    name: str
    size_bytes: int
    made_of: str


def plan_analysis(feeding: FeedingOptions, view: ViewOptions) -> list[Stage]:
    """What an analysis holds, which reads shards one after the other; encoded images are small."""
    return _plan_batches(feeding, view, 0, "analysis")


def plan_indexed(
    feeding: FeedingOptions, view: ViewOptions, record_bytes: int, index_bytes: int, use: Use
) -> list[Stage]:
    """What random access holds."""
    index = Stage("index", index_bytes, f"28 bytes a shard; without {ROWS}, 56 a record")
    return [index, *_plan_batches(feeding, view, record_bytes, use)]


def batches_in_work() -> int:
    """How many batches go through random steps and transform graph in parallel."""
    return min(usable_cores(), _MOST_BATCHES)


def _plan_batches(
    feeding: FeedingOptions, view: ViewOptions, record_bytes: int, use: Use
) -> list[Stage]:
    batch, ready, work = feeding.batch_size, feeding.prefetch_batches, batches_in_work()
    pixels, size = _count_pixels(view)
    waiting, why = (ready, "ready") if use == "analysis" else (work, "in work")
    stages = [
        Stage("encoded batches", 3 * batch * record_bytes, f"3 x {batch} batch_size, encoded"),
        Stage(
            "views",
            (waiting + 2) * batch * pixels * view.pixel_bytes,
            f"({waiting} + 2 {why}) x {batch} batch_size x {size}, {view.dtype}",
        ),
    ]
    # An analysis has views only.
    return stages if use == "analysis" else [*stages, *_plan_steps(feeding, view, use)]


def _plan_steps(feeding: FeedingOptions, view: ViewOptions, use: Use) -> list[Stage]:
    """What comes after the views: random steps, and batches as the model gets them."""
    batch, ready, work = feeding.batch_size, feeding.prefetch_batches, batches_in_work()
    pixels, size = _count_pixels(view)
    # Without a transform graph (`feeding.dtype` is then uint8), images stay what they are.
    least_bytes = view.pixel_bytes if feeding.dtype == "uint8" else 1
    count = ready + work + _WITH_THE_MODEL
    return [
        _plan_work(feeding, view, use),
        Stage(
            "ready batches",
            int(_GAPS * count * batch * pixels * max(_PIXEL_BYTES[feeding.dtype], least_bytes)),
            f"({ready} prefetch_batches + {work} in work + {_WITH_THE_MODEL} with the model) "
            f"x {batch} batch_size x {size}, {feeding.dtype}, and a quarter for gaps",
        ),
    ]


def _plan_work(feeding: FeedingOptions, view: ViewOptions, use: Use) -> Stage:
    """What random steps and the transform graph hold besides: by measurement, nothing if compiled.

    TensorFlow's kernels hold several floats of each pixel; a half float is a float32 before, in
    most cases of one batch at a time.
    """
    pixels, size = _count_pixels(view)
    has_kernels = use == "train" and bool(feeding.steps) and not feeding.compiled
    a_pixel = 16 * batches_in_work() if has_kernels else 0
    a_pixel += 4 if _PIXEL_BYTES[feeding.dtype] == 2 else 0
    made_of = f"{a_pixel} bytes x {feeding.batch_size} batch_size x {size}"
    return Stage("steps in work", a_pixel * feeding.batch_size * pixels, made_of)


def _count_pixels(view: ViewOptions) -> tuple[int, str]:
    """The values of a view, and how many these are in words."""
    sides = (view.height_px, view.width_px, view.channels)
    return math.prod(sides), " x ".join(map(str, sides))


def check_budget(stages: Sequence[Stage], feeding: FeedingOptions, use: Use = "train") -> str:
    """Checks the plan against the budget.

    Returns:
      The plan as text, a line per stage.

    Raises:
      UserError: if the stages together exceed it.
    """
    total = sum(stage.size_bytes for stage in stages)
    lines = [
        f"  {stage.name:<16} {_megabytes(stage.size_bytes):>12}  {stage.made_of}"
        for stage in stages
    ]
    plan = "\n".join([f"The input pipeline holds about {_megabytes(total)}:", *lines])
    if total > _budget(feeding)[0]:
        largest = max(stages, key=lambda stage: stage.size_bytes)
        raise UserError(f"{plan}\nThat must stay within {_explain(largest, feeding, use)}")
    return plan


def _explain(largest: Stage, feeding: FeedingOptions, use: Use) -> str:
    """The budget in words, and what to do."""
    budget, available = _budget(feeding)
    of = f"of the {_megabytes(available)} available, {_megabytes(budget)}; lower "
    if use == "analysis":
        return f"{feeding.memory_fraction:g} {of}transform.batch_size, or the view's size."
    return (
        f"feeding.memory_fraction = {feeding.memory_fraction:g} {of}what makes the "
        f"{largest.name} large, or raise memory_fraction."
    )


def fits(stages: Sequence[Stage], feeding: FeedingOptions) -> bool:
    """Tells whether the stages take half of the budget, or less.

    Half, because training and evaluation each hold a data set, and one is not in memory yet when
    the other is planned.
    """
    return 2 * sum(stage.size_bytes for stage in stages) <= _budget(feeding)[0]


def _budget(feeding: FeedingOptions) -> tuple[int, int]:
    """The budget, and the free memory that it is a share of, in bytes."""
    available = free_bytes()
    return int(feeding.memory_fraction * available), available


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"


def free_bytes() -> int:
    """The free memory: the machine's, or that of the tightest container around this process.

    The kernel's page cache counts as used by a container, but is released when needed: its part
    that has not been used lately (`inactive_file`) is free.
    """
    machine = psutil.virtual_memory().available
    second = ("memory.max", "memory.current", "inactive_file")  # of control groups' versions
    first = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    versions = ((_ROOT, "", second), (_ROOT / "memory", "memory", first))
    found = (
        free
        for root, controller, names in versions
        for folder in _folders(root, controller)
        for free in _free_in(folder, *names)
    )
    return max(0, min([machine, *found]))


def _folders(root: pathlib.Path, controller: str) -> list[pathlib.Path]:
    """The process's control group and all its parents: each may have a limit.

    Within a container, its own group may be the root, whatever the group's path says.
    """
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        lines = []
    paths = [line.split(":", 2)[2] for line in lines if line.split(":")[1:2] == [controller]]
    own = [root / path.lstrip("/") for path in paths]
    around = [parent for folder in own for parent in folder.parents if root in parent.parents]
    return list(dict.fromkeys([root, *own, *around]))


def _free_in(folder: pathlib.Path, limit: str, used: str, inactive: str) -> Iterator[int]:
    """The limit less the used memory that cannot be released; nothing if there is no limit."""
    try:
        most = (folder / limit).read_text().strip()
        held = int((folder / used).read_text())
        if most != "max":
            yield int(most) - max(0, held - _read_stat(folder, inactive))
    except (OSError, ValueError):  # No such group, or another kernel's format.
        return


def _read_stat(folder: pathlib.Path, name: str) -> int:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)
