"""What to change, and what that will gain: estimates from the measurements, or measured itself."""

import dataclasses
from collections.abc import Callable, Iterator

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.doctor.verdict import STEP, Figures, Verdict, estimate_step_ms

# A change that gains less is not worth the trouble.
_LEAST_GAIN = 1.05


@dataclasses.dataclass(frozen=True)
class Change:
    """Something to change.

    Attributes:
      text: what to change, with the option's name.
      step_ms: estimated duration of a step afterwards.
      gain: the factor by which images per second will grow.
      is_measured: whether it was tried; else both are estimates.
    """

    text: str
    step_ms: float
    gain: float
    is_measured: bool = False


def advise(figures: Figures, verdict: Verdict, feeding: FeedingOptions) -> list[Change]:
    """Lists what to change, the greatest gain first; empty if nothing gains 5 %."""
    changes: list[Change] = []
    if verdict.limit == STEP:
        changes += _make_fewer_calls(figures)
    else:
        for text, factors in _PROPOSALS[verdict.limit](figures, feeding):
            step_ms = estimate_step_ms(figures, factors)
            changes.append(Change(text, step_ms, figures.together_ms / step_ms))
    useful = [change for change in changes if change.gain >= _LEAST_GAIN]
    return sorted(useful, key=lambda change: -change.gain)


def _make_fewer_calls(figures: Figures) -> Iterator[Change]:
    """As many steps in a call of Keras as were fastest."""
    present = figures.calls.get(figures.steps_a_call)
    if present is not None:
        best = max(figures.calls, key=figures.calls.__getitem__)
        gain = figures.calls[best] / present
        text = f"make {best} steps in each call (training.steps_per_execution={best})"
        yield Change(text, figures.together_ms / gain, gain, is_measured=True)


# What to change, and the fraction of its cost that each stage will have.
_Proposals = Iterator[tuple[str, dict[str, float]]]


def _speed_up_read(figures: Figures, feeding: FeedingOptions) -> _Proposals:
    storage = figures.storage
    yield from _hold(figures, feeding)
    if storage.encoding in ("raw", "png"):
        # JPEG of quality 90 takes a tenth of the pixels' bytes, or a little more.
        factor = min(1.0, 0.12 * storage.pixel_bytes / storage.stored_bytes)
        yield "store JPEG (ingest.prepare.encoding=jpeg), which is smaller", {"read": factor}
    yield from _store_smaller(figures)
    yield "put the data set on a disk that is twice as fast, or on a local one", {"read": 0.5}


def _speed_up_decode(figures: Figures, feeding: FeedingOptions) -> _Proposals:
    storage = figures.storage
    yield from _hold(figures, feeding)
    if storage.encoding != "raw":
        growth = storage.pixel_bytes / storage.stored_bytes
        yield (
            f"store pixels (ingest.prepare.encoding=raw), {growth:.1f} times the bytes to read",
            {"decode": 0.0, "read": growth},
        )
    yield from _store_smaller(figures)
    yield from _add_cores(figures)


def _speed_up_views(figures: Figures, feeding: FeedingOptions) -> _Proposals:
    storage = figures.storage
    if storage.pixel_bytes > 1.5 * storage.view_bytes:
        yield (
            "store images nearer to the view's size (ingest.prepare.size_px)",
            {"views": storage.view_bytes / storage.pixel_bytes},
        )
    yield from _add_cores(figures)


def _speed_up_augment(figures: Figures, feeding: FeedingOptions) -> _Proposals:
    if not feeding.compiled:
        yield "have the random steps compiled (feeding.compiled=true)", {"augment": 0.1}
    named = ", ".join(step.model_dump()["op"] for step in feeding.steps)
    yield f"make the random steps ({named}) twice as fast, or leave one out", {"augment": 0.5}
    yield from _add_cores(figures)


def _speed_up_transform(figures: Figures, feeding: FeedingOptions) -> _Proposals:
    if not feeding.compiled:
        yield "have the transform graph compiled (feeding.compiled=true)", {"transform": 0.1}
    yield (
        "in a training loop of your own, take uint8 (feeding.dtype=uint8) and make the transform "
        "graph the model's first layer",
        {"transform": 0.0},
    )
    yield from _add_cores(figures)


_PROPOSALS: dict[str, Callable[[Figures, FeedingOptions], _Proposals]] = {
    "read": _speed_up_read,
    "decode": _speed_up_decode,
    "views": _speed_up_views,
    "augment": _speed_up_augment,
    "transform": _speed_up_transform,
}


def _hold(figures: Figures, feeding: FeedingOptions) -> _Proposals:
    if figures.could_hold and not figures.held and not feeding.hold_decoded:
        text = "decode each image only once (feeding.hold_decoded=true), from the second epoch on"
        yield text, {"read": 0.0, "decode": 0.0}


def _store_smaller(figures: Figures) -> _Proposals:
    # Random crops need somewhat more than the view; anything stored beyond that is wasted.
    wanted = 1.5 * figures.storage.view_bytes
    if figures.storage.pixel_bytes > 1.2 * wanted:
        text = "store smaller images (ingest.prepare.size_px), 1.5 times the view's pixels"
        share = wanted / figures.storage.pixel_bytes
        yield text, dict.fromkeys(("read", "decode", "views"), share)


def _add_cores(figures: Figures) -> _Proposals:
    text = f"use {2 * figures.cores} processor cores instead of {figures.cores}"
    yield text, dict.fromkeys(("decode", "views", "augment", "transform"), 0.5)
