"""The whole examination: measure, judge, advise."""

import dataclasses
from collections.abc import Callable
from typing import Any

from image_pipeline.components.feeding.memory import Stage as MemoryStage
from image_pipeline.components.feeding.memory import fits
from image_pipeline.components.threads import usable_cores
from image_pipeline.doctor.advice import Change, Facts, advise
from image_pipeline.doctor.clock import OthersClock, Rate
from image_pipeline.doctor.stages import InputFigures, Measured, count_buffered, measure_input
from image_pipeline.doctor.step import Step, Together, measure_step, measure_together
from image_pipeline.doctor.subject import (
    Storage,
    Subject,
    describe_storage,
    hold_some,
    sample_records,
)
from image_pipeline.doctor.verdict import Figures, Stage, Verdict, judge


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examination:
    """What was found.

    Attributes:
      input: the stages of the input.
      step: the model's step alone.
      together: both.
      figures: what the verdict is made of.
      verdict: what limits.
      changes: what to change, by falling gain.
      storage: how images are stored.
      could_hold: whether all images, decoded, fit into the memory that they may take.
      others_share: which share of the processor other programs used meanwhile.
    """

    input: InputFigures
    step: Rate
    together: Together
    figures: Figures
    verdict: Verdict
    changes: tuple[Change, ...]
    storage: Storage
    could_hold: bool
    others_share: float


def examine(
    subject: Subject, step: Step, seconds: float, report: Callable[[str], None]
) -> Examination:
    """Measures everything, for so many seconds each, and judges.

    Raises:
      UserError: if an option does not fit the data set, or a record is damaged.
    """
    others = OthersClock()
    measured = measure_input(subject, seconds, report)
    batches, warm_up = open_training(subject, measured, seconds)
    report("the model's step")
    images, labels = next(iter(batches))
    alone = measure_step(step, images, labels, seconds)
    report("training: both together")
    together = measure_together(batches, step, seconds, warm_up)
    others_share = others.read_share()
    figures = _make_figures(measured, alone, together, int(images.shape[0]))
    verdict = judge(figures)
    storage = describe_storage(sample_records(subject), subject.view)
    facts = _find_facts(subject, storage)
    return Examination(
        input=measured,
        step=alone,
        together=together,
        figures=figures,
        verdict=verdict,
        changes=tuple(advise(figures, verdict, facts)),
        storage=storage,
        could_hold=facts.fits,
        others_share=others_share,
    )


def open_training(subject: Subject, measured: InputFigures, seconds: float) -> tuple[Any, int]:
    """Training's batches as they come in most epochs, and how many come before they do."""
    feeding, steps = subject.measured, 0
    if subject.is_held:
        decoding = measured.every_image[1].rate
        feeding, steps = hold_some(subject, int(seconds * decoding.images_per_s))
    return subject.read_batches(feeding).skip(steps), count_buffered(feeding)


def _make_figures(
    measured: InputFigures, alone: Rate, together: Together, batch_size: int
) -> Figures:
    return Figures(
        stages=[as_stage(each) for each in measured.usual],
        batch_size=batch_size,
        cores=usable_cores(),
        step_ms=alone.ms_an_image * batch_size,
        together_ms=together.step_ms,
        wait_ms=together.wait_ms,
    )


def as_stage(measured: Measured) -> Stage:
    """The figures of a stage that a verdict is made of."""
    rate = measured.rate
    return Stage(name=measured.name, wall_ms=rate.ms_an_image, cpu_ms=rate.cpu_ms_an_image)


def _find_facts(subject: Subject, storage: Storage) -> Facts:
    feeding = subject.feeding
    return Facts(
        encoding=storage.encoding,
        stored_bytes=storage.stored_bytes,
        pixel_bytes=storage.pixel_bytes,
        view_bytes=storage.view_bytes,
        is_held=subject.is_held,
        hold_decoded=feeding.hold_decoded,
        fits=_could_hold(subject, storage),
        compiled=feeding.compiled,
        cores=usable_cores(),
        steps=tuple(step.model_dump()["op"] for step in feeding.augment),
    )


def _could_hold(subject: Subject, storage: Storage) -> bool:
    index = subject.records.index
    if index is None:
        return False
    if subject.is_held:
        return True
    pixels = int(storage.pixel_bytes * len(index))
    return fits([*subject.memory, MemoryStage("decoded images", pixels, "")], subject.feeding)
