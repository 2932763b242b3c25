"""What to change, and what that will bring by the measured figures: estimates, no promises."""

import dataclasses
from collections.abc import Callable, Iterator

from image_pipeline.doctor.verdict import Figures, Verdict, estimate_step_ms

# A change that brings less is not worth a person's time.
_LEAST_GAIN = 1.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What decides which changes are possible.

    Attributes:
      encoding: how most images are stored: "jpeg", "png" or "raw".
      stored_bytes: of a stored image; a mean, as the next two.
      pixel_bytes: of the same image decoded.
      view_bytes: of the model's view of it.
      is_held: whether images are decoded once, and held in memory.
      hold_decoded: the option feeding.hold_decoded.
      fits: whether all images would fit into the memory that they may take.
      compiled: the option feeding.compiled.
      cores: of the processor.
      steps: names of the random steps.
    """

    encoding: str
    stored_bytes: float
    pixel_bytes: float
    view_bytes: float
    is_held: bool
    hold_decoded: bool
    fits: bool
    compiled: bool
    cores: int
    steps: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Change:
    """Something to change.

    Attributes:
      text: what, in the options' words.
      step_ms: what a step will take then: an estimate.
      gain: how many times as many images a second that is.
    """

    text: str
    step_ms: float
    gain: float


def advise(figures: Figures, verdict: Verdict, facts: Facts) -> list[Change]:
    """Lists what to change, by falling gain; nothing where nothing of this brings 5 %."""
    changes = []
    for text, factors in _CHANGES.get(verdict.limit, _change_nothing)(facts):
        step_ms = estimate_step_ms(figures, factors)
        changes.append(Change(text, step_ms, figures.together_ms / step_ms))
    useful = [change for change in changes if change.gain >= _LEAST_GAIN]
    return sorted(useful, key=lambda change: -change.gain)


_Proposals = Iterator[tuple[str, dict[str, float]]]


def _change_read(facts: Facts) -> _Proposals:
    yield from _hold(facts)
    if facts.encoding in ("raw", "png"):
        # JPEG of quality 90 takes a tenth of the pixels' bytes, or a little more.
        factor = min(1.0, 0.12 * facts.pixel_bytes / facts.stored_bytes)
        yield "store JPEG (ingest.prepare.encoding=jpeg), which is smaller", {"read": factor}
    yield from _store_smaller(facts)
    yield "put the data set on a disk that is twice as fast, or on a local one", {"read": 0.5}


def _change_decode(facts: Facts) -> _Proposals:
    yield from _hold(facts)
    if facts.encoding != "raw":
        growth = facts.pixel_bytes / facts.stored_bytes
        yield (
            f"store pixels (ingest.prepare.encoding=raw), {growth:.1f} times the bytes to read",
            {"decode": 0.0, "read": growth},
        )
    yield from _store_smaller(facts)
    yield _more_cores(facts), {"decode": 0.5, "views": 0.5, "augment": 0.5, "transform": 0.5}


def _change_views(facts: Facts) -> _Proposals:
    if facts.pixel_bytes > 1.5 * facts.view_bytes:
        yield (
            "store images nearer to the view's size (ingest.prepare.size_px)",
            {"views": facts.view_bytes / facts.pixel_bytes},
        )
    yield _more_cores(facts), {"decode": 0.5, "views": 0.5, "augment": 0.5, "transform": 0.5}


def _change_augment(facts: Facts) -> _Proposals:
    if not facts.compiled:
        yield "have the random steps compiled (feeding.compiled=true)", {"augment": 0.1}
    named = ", ".join(facts.steps)
    yield f"make the random steps ({named}) twice as fast, or leave one out", {"augment": 0.5}
    yield _more_cores(facts), {"decode": 0.5, "views": 0.5, "augment": 0.5, "transform": 0.5}


def _change_transform(facts: Facts) -> _Proposals:
    if not facts.compiled:
        yield "have the transform graph compiled (feeding.compiled=true)", {"transform": 0.1}
    yield (
        "in a training loop of your own, take uint8 (feeding.dtype=uint8) and make the transform "
        "graph the model's first layer",
        {"transform": 0.0},
    )
    yield _more_cores(facts), {"decode": 0.5, "views": 0.5, "augment": 0.5, "transform": 0.5}


def _change_nothing(facts: Facts) -> _Proposals:
    yield from ()


_CHANGES: dict[str, Callable[[Facts], _Proposals]] = {
    "read": _change_read,
    "decode": _change_decode,
    "views": _change_views,
    "augment": _change_augment,
    "transform": _change_transform,
}


def _hold(facts: Facts) -> _Proposals:
    if not facts.is_held and not facts.hold_decoded and facts.fits:
        text = "decode each image only once (feeding.hold_decoded=true), from the second epoch on"
        yield text, {"read": 0.0, "decode": 0.0}


def _store_smaller(facts: Facts) -> _Proposals:
    # Random crops want some more than the view; what is stored beyond that is only thrown away.
    wanted = 1.5 * facts.view_bytes
    if facts.pixel_bytes > 1.2 * wanted:
        share = wanted / facts.pixel_bytes
        text = "store smaller images (ingest.prepare.size_px), 1.5 times the view's pixels"
        yield text, {"read": share, "decode": share, "views": share}


def _more_cores(facts: Facts) -> str:
    return f"use {2 * facts.cores} processor cores instead of {facts.cores}"
