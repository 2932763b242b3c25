"""What limits training, what to change, and what that will gain: estimates from the figures."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.json_files import read_versioned
from image_pipeline.components.json_text import to_json
from image_pipeline.doctor.figures import Figures

VERSION = 1  # of `doctor.json`
# Below this, waiting is within the noise of two measurements.
LEAST_WAIT = 0.10
# A change that gains less is not worth the trouble.
_LEAST_GAIN = 1.05
STEP = "step"


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


@dataclasses.dataclass(frozen=True)
class Change:
    """Something to change.

    Attributes:
      text: what to change, with the option's name.
      gain: the factor by which images per second will grow.
      is_measured: whether it was tried; else the gain is an estimate.
    """

    text: str
    gain: float
    is_measured: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examination(Figures):
    """All that the doctor found, as `--json` prints it and a run's folder keeps it.

    Attributes:
      measured_at: when, by ISO 8601 in UTC.
      seconds: duration of each measurement.
      given_step_ms: the duration of a step that was given; None if the model's was measured.
      options: `view`, `feeding` and `training`, as JSON.
      changes: what would help, the greatest gain first.
      profile: a `components.training.profile.Profile` as a dict; None if no step was traced.
    """

    version: int = VERSION
    measured_at: str
    seconds: float
    given_step_ms: float | None
    options: Mapping[str, Any]
    line: str
    verdict: Verdict
    changes: Sequence[Change]
    profile: Mapping[str, Any] | None = None


def write_examination(path: str, found: Examination) -> None:
    """Keeps an examination for the report; raises OSError if the file cannot be written."""
    files.write_file(path, f"{to_json(found)}\n".encode())


def read_examination(path: str) -> Examination | None:
    """The examination that a run's folder keeps; None if there was none.

    Raises:
      UserError: if the file is damaged, or of another version.
    """
    try:
        return read_versioned(path, Examination, VERSION, "run `image-pipeline doctor` again")
    except FileNotFoundError:
        return None


def judge(figures: Figures) -> Verdict:
    """Says what limits: the costliest stage if the model waits, otherwise the model's step."""
    wait_share = figures.wait_ms / figures.together_ms
    # How much longer a step takes beside the input, although its batch is ready.
    slowed_ms = max(0.0, figures.together_ms - figures.wait_ms - figures.step_ms)
    costliest = max(figures.usual, key=lambda name: figures.usual[name].own_ms_an_image)
    return Verdict(
        limit=costliest if wait_share >= LEAST_WAIT else STEP,
        wait_share=wait_share,
        shared_share=slowed_ms / figures.together_ms,
        headroom=figures.step_ms / figures.input_ms,
    )


def advise(figures: Figures, limit: str, feeding: FeedingOptions) -> list[Change]:
    """Lists what to change where this limits, the greatest gain first; empty if none gains 5 %."""
    storage = figures.storage
    growth = storage.pixel_bytes / storage.stored_bytes
    # Random crops need somewhat more than the view; anything stored beyond that is wasted.
    wanted = 1.5 * storage.view_bytes / storage.pixel_bytes
    # What to change, and the fraction of its cost that each stage will have.
    ways: dict[str, dict[str, float]] = {}
    if limit in ("read", "decode"):
        if figures.could_hold and not figures.stages.held and not feeding.hold_decoded:
            text = (
                "decode each image only once (feeding.hold_decoded=true), from the second epoch on"
            )
            ways[text] = {"read": 0.0, "decode": 0.0}
        if 1.2 * wanted < 1:
            text = "store smaller images (ingest.prepare.size_px), 1.5 times the view's pixels"
            ways[text] = dict.fromkeys(("read", "decode", "views"), wanted)
    if limit == "read":
        if storage.encoding in ("raw", "png"):
            # JPEG of quality 90 takes a tenth of the pixels' bytes, or a little more.
            text = "store JPEG (ingest.prepare.encoding=jpeg), which is smaller"
            ways[text] = {"read": min(1.0, 0.12 * growth)}
        ways["put the data set on a disk that is twice as fast, or on a local one"] = {"read": 0.5}
    if limit == "decode" and storage.encoding != "raw":
        text = f"store pixels (ingest.prepare.encoding=raw), {growth:.1f} times the bytes to read"
        ways[text] = {"decode": 0.0, "read": growth}
    if limit == "views" and wanted < 1:
        text = "store images nearer to the view's size (ingest.prepare.size_px)"
        ways[text] = {"views": storage.view_bytes / storage.pixel_bytes}
    if limit == "augment":
        if not feeding.compiled:
            ways["have the random steps compiled (feeding.compiled=true)"] = {"augment": 0.1}
        named = ", ".join(step.model_dump()["op"] for step in feeding.steps)
        text = f"make the random steps ({named}) twice as fast, or leave one out"
        ways[text] = {"augment": 0.5}
    if limit == "transform":
        if not feeding.compiled:
            ways["have the transform graph compiled (feeding.compiled=true)"] = {"transform": 0.1}
        text = "in a training loop of your own, take uint8 (feeding.dtype=uint8) and make the "
        ways[text + "transform graph the model's first layer"] = {"transform": 0.0}
    if limit not in ("read", STEP):
        text = f"use {2 * figures.cores} processor cores instead of {figures.cores}"
        ways[text] = dict.fromkeys(("decode", "views", "augment", "transform"), 0.5)
    changes = [
        Change(text, figures.together_ms / estimate_step_ms(figures, factors))
        for text, factors in ways.items()
    ]
    present = figures.calls.get(figures.steps_a_call)
    if limit == STEP and present is not None:  # As many steps in a call as were fastest.
        best = max(figures.calls, key=figures.calls.__getitem__)
        text = f"make {best} steps in each call (training.steps_per_execution={best})"
        changes.append(Change(text, figures.calls[best] / present, is_measured=True))
    useful = [change for change in changes if change.gain >= _LEAST_GAIN]
    return sorted(useful, key=lambda change: -change.gain)


def estimate_step_ms(figures: Figures, factors: Mapping[str, float]) -> float:
    """Estimates the duration of a training step if stages become faster (or slower).

    Args:
      factors: stage to the factor on its cost: 0 removes it, 2 doubles it.

    Returns:
      Milliseconds per step: never less than the model alone takes, nor than the costliest stage.
    """
    size = figures.batch_size
    costs = {name: size * stage.own_ms_an_image for name, stage in figures.usual.items()}
    after = {name: cost * factors.get(name, 1.0) for name, cost in costs.items()}
    change_ms = sum(after.values()) - sum(costs.values())
    changed_ms = figures.together_ms + change_ms
    # What is slower than the model's own step cannot be hidden behind it; a stage that becomes
    # slower can, as long as the input as a whole is faster than the step.
    if change_ms > 0:
        changed_ms = max(figures.together_ms, figures.input_ms + change_ms)
    return max(changed_ms, figures.step_ms, max(after.values()))
