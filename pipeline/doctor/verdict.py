"""Which part limits training, and what a change would bring: computed from measured numbers."""

import dataclasses
from collections.abc import Mapping

from image_pipeline.doctor.clock import Rate

# Below this, waiting is what two measurements of the same differ by.
LEAST_WAIT = 0.10
STEP = "step"


# Stages of the input pipeline in the order of the data's way, each timed with all before it.
Stages = Mapping[str, Rate]


@dataclasses.dataclass(frozen=True)
class Storage:
    """How the sampled images are stored; means of an image.

    Attributes:
      encoding: "jpeg", "png" or "raw": that of most.
      stored_bytes: of the stored image.
      pixel_bytes: of the image decoded.
      view_bytes: of the model's view of it.
    """

    encoding: str
    stored_bytes: float
    pixel_bytes: float
    view_bytes: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """All that was measured.

    Attributes:
      cold: reading alone after the operating system forgot the files; None if it cannot.
      every_image: the stages of an epoch that reads and decodes every image.
      held: the stages of later epochs, which take images from memory; empty if none do.
      step: the model's step alone.
      together_ms: from a step to the next in training.
      wait_ms: of that, how long the model waits for its batch.
      batch_size: images a step.
      cores: the processor's number of cores.
      storage: how images are stored.
      could_hold: whether all images, decoded, fit into the memory that they may take.
      others_share: which share of the processor other programs used meanwhile.
    """

    cold: Rate | None
    every_image: Stages
    held: Stages
    step: Rate
    together_ms: float
    wait_ms: float
    batch_size: int
    cores: int
    storage: Storage
    could_hold: bool
    others_share: float

    @property
    def usual(self) -> Stages:
        """The stages of most epochs."""
        return self.held or self.every_image

    @property
    def whole(self) -> Rate:
        """All stages of most epochs together."""
        return list(self.usual.values())[-1]

    @property
    def step_ms(self) -> float:
        """The model's step alone."""
        return self.step.ms_an_image * self.batch_size

    @property
    def input_ms(self) -> float:
        """From a batch to the next, if no model takes them."""
        return self.whole.ms_an_image * self.batch_size


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What limits.

    Attributes:
      limit: a stage's name, or "step".
      wait_share: of a step, how much the model waits for its batch.
      shared_share: of a step, how much the model is slower for sharing the machine with the input.
      headroom: how many times as many images as the model takes alone the input could give.
    """

    limit: str
    wait_share: float
    shared_share: float
    headroom: float


def judge(figures: Figures) -> Verdict:
    """Says what limits: the stage that costs most where the model waits, else the model's step."""
    together_ms = figures.together_ms
    wait_share = figures.wait_ms / together_ms
    # What a step takes longer beside the input, though its batch is there.
    slowed_ms = max(0.0, together_ms - figures.wait_ms - figures.step_ms)
    costs = own_costs(figures.usual, figures.cores)
    costliest = max(costs, key=lambda name: costs[name])
    return Verdict(
        limit=costliest if wait_share >= LEAST_WAIT else STEP,
        wait_share=wait_share,
        shared_share=slowed_ms / together_ms,
        headroom=figures.step_ms / figures.input_ms,
    )


def own_costs(stages: Stages, cores: int) -> dict[str, float]:
    """What each stage costs of its own: name to milliseconds an image, never negative.

    It is what the stage adds to the time, or (where it works while another one is waited for, and
    so adds nothing) its processor time over all cores. What a stage takes with all before it can
    be no more than what a later stage takes with all before that one: such is noise, and left out.
    """
    costs, wall_ms, cpu_ms = {}, 0.0, 0.0
    for place, name in enumerate(stages):
        rest = list(stages.values())[place:]
        least_wall_ms = min(rate.ms_an_image for rate in rest)
        least_cpu_ms = min(rate.cpu_ms_an_image for rate in rest)
        costs[name] = max(least_wall_ms - wall_ms, (least_cpu_ms - cpu_ms) / cores)
        wall_ms, cpu_ms = least_wall_ms, least_cpu_ms
    return costs


def estimate_step_ms(figures: Figures, factors: Mapping[str, float]) -> float:
    """Estimates a training step after stages have become faster (or slower).

    Args:
      figures: what was measured.
      factors: stage to the share of its cost that it has then: 0 takes it away, 2 doubles it.

    Returns:
      Milliseconds a step: never less than the model alone takes, or than what the costliest stage
      takes then.
    """
    costs = own_costs(figures.usual, figures.cores)
    after = {name: cost * factors.get(name, 1.0) for name, cost in costs.items()}
    change_ms = (sum(after.values()) - sum(costs.values())) * figures.batch_size
    costliest_ms = max(after.values()) * figures.batch_size
    changed_ms = figures.together_ms + change_ms
    # What is slower than the model's own step cannot be hidden behind it; a stage that becomes
    # slower can, as long as the input as a whole is faster than the step.
    if change_ms > 0:
        changed_ms = max(figures.together_ms, figures.input_ms + change_ms)
    return max(changed_ms, figures.step_ms, costliest_ms)
