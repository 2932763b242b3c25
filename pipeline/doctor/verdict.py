"""Which part limits training, and what a change would gain: computed from measurements."""

import dataclasses
from collections.abc import Mapping

from image_pipeline.doctor.clock import Rate

# Below this, waiting is within the noise of two measurements.
LEAST_WAIT = 0.10
STEP = "step"


# Stages of the input pipeline in the order of processing, each timed with all before it.
Stages = Mapping[str, Rate]


@dataclasses.dataclass(frozen=True)
class Storage:
    """How the sampled images are stored; means per image.

    Attributes:
      encoding: "jpeg", "png" or "raw": the most frequent one.
      stored_bytes: size of the stored image.
      pixel_bytes: size of the decoded image.
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
      cold: reading alone, with nothing cached by the operating system; None if that is not
        possible.
      every_image: the stages of an epoch that reads and decodes every image.
      held: the stages of later epochs, which take images from memory; empty if none do.
      step: the model's step alone.
      together_ms: from one step to the next in training.
      wait_ms: how long of that the model waits for its batch.
      batch_size: images per step.
      cores: the processor's number of cores.
      storage: how images are stored.
      could_hold: whether all decoded images would fit into the memory allowed for them.
      others_share: share of the processor that other programs used meanwhile.
      steps_a_call: how many steps of the model Keras makes in one call.
      calls: numbers of steps in a call to images per second of the model alone; empty if steps are
        so long that it cannot matter.
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
    steps_a_call: int = 1
    calls: Mapping[int, float] = dataclasses.field(default_factory=dict)

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
        """Duration of the model's step alone."""
        return self.step.ms_an_image * self.batch_size

    @property
    def input_ms(self) -> float:
        """From one batch to the next, without a model."""
        return self.whole.ms_an_image * self.batch_size


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What limits training.

    Attributes:
      limit: a stage's name, or "step".
      wait_share: share of a step in which the model waits for its batch.
      shared_share: share of a step by which the model is slower because it shares the machine.
      headroom: how many times the images that the model alone consumes the input could supply.
    """

    limit: str
    wait_share: float
    shared_share: float
    headroom: float


def judge(figures: Figures) -> Verdict:
    """Says what limits: the costliest stage if the model waits, otherwise the model's step."""
    together_ms = figures.together_ms
    wait_share = figures.wait_ms / together_ms
    # How much longer a step takes beside the input, although its batch is ready.
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
    """What each stage itself costs: name to milliseconds per image, never negative.

    It is what the stage adds to the time, or (if it adds nothing because it works while another one
    is waited for) its processor time over all cores. A stage with all before it cannot take longer
    than a later one with all before that; such noise is left out.
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
    """Estimates the duration of a training step if stages become faster (or slower).

    Args:
      figures: what was measured.
      factors: stage to the factor on its cost: 0 removes it, 2 doubles it.

    Returns:
      Milliseconds per step: never less than the model alone takes, nor than the costliest stage.
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
