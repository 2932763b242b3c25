"""Which part limits training, and what a change would bring: computed from measured numbers."""

import dataclasses
from collections.abc import Mapping, Sequence

# Below this, waiting is what two measurements of the same differ by.
LEAST_WAIT = 0.10
STEP = "step"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the input pipeline, measured together with all before it.

    Attributes:
      name: of the stage.
      wall_ms: from an image to the next.
      cpu_ms: of processor time an image.
    """

    name: str
    wall_ms: float
    cpu_ms: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """What a verdict is made of.

    Attributes:
      stages: in the order of the data's way; at least one.
      batch_size: images a step.
      cores: of the processor.
      step_ms: the model's step alone.
      together_ms: from a step to the next in training.
      wait_ms: of that, how long the model waits for its batch.
    """

    stages: Sequence[Stage]
    batch_size: int
    cores: int
    step_ms: float
    together_ms: float
    wait_ms: float

    @property
    def input_ms(self) -> float:
        """From a batch to the next, if no model takes them."""
        return self.stages[-1].wall_ms * self.batch_size


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
    costs = own_costs(figures.stages, figures.cores)
    costliest = max(costs, key=lambda name: costs[name])
    return Verdict(
        limit=costliest if wait_share >= LEAST_WAIT else STEP,
        wait_share=wait_share,
        shared_share=slowed_ms / together_ms,
        headroom=figures.step_ms / figures.input_ms,
    )


def own_costs(stages: Sequence[Stage], cores: int) -> dict[str, float]:
    """What each stage costs of its own: name to milliseconds an image, never negative.

    It is what the stage adds to the time, or (where it works while another one is waited for, and
    so adds nothing) its processor time over all cores. What a stage takes with all before it can
    be no more than what a later stage takes with all before that one: such is noise, and left out.
    """
    costs, wall_ms, cpu_ms = {}, 0.0, 0.0
    for place, stage in enumerate(stages):
        least_wall_ms = min(later.wall_ms for later in stages[place:])
        least_cpu_ms = min(later.cpu_ms for later in stages[place:])
        costs[stage.name] = max(least_wall_ms - wall_ms, (least_cpu_ms - cpu_ms) / cores)
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
    costs = own_costs(figures.stages, figures.cores)
    after = {name: cost * factors.get(name, 1.0) for name, cost in costs.items()}
    change_ms = (sum(after.values()) - sum(costs.values())) * figures.batch_size
    costliest_ms = max(after.values()) * figures.batch_size
    changed_ms = figures.together_ms + change_ms
    # What is slower than the model's own step cannot be hidden behind it; a stage that becomes
    # slower can, as long as the input as a whole is faster than the step.
    if change_ms > 0:
        changed_ms = max(figures.together_ms, figures.input_ms + change_ms)
    return max(changed_ms, figures.step_ms, costliest_ms)
