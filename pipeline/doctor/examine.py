"""The whole examination: all measurements, one after the other."""

from collections.abc import Callable
from typing import Any

from image_pipeline.components.feeding.budget import Stage as MemoryStage
from image_pipeline.components.feeding.budget import fits
from image_pipeline.components.threads import usable_cores
from image_pipeline.doctor.calls import count_present_steps, measure_executions
from image_pipeline.doctor.clock import OtherPrograms
from image_pipeline.doctor.stages import count_buffered, measure_input
from image_pipeline.doctor.step import ModelStep, Step, measure_step, measure_together
from image_pipeline.doctor.subject import (
    Subject,
    choose_usual,
    describe_storage,
    sample_records,
)
from image_pipeline.doctor.verdict import Figures, Stages, Storage


def examine(subject: Subject, step: Step, seconds: float, report: Callable[[str], None]) -> Figures:
    """Measures everything, for this many seconds each.

    Raises:
      UserError: if an option does not fit the data set, or a record is damaged.
    """
    others = OtherPrograms()
    cold, every_image, held = measure_input(subject, seconds, report)
    batches, warm_up = open_training(subject, every_image, seconds)
    report("the model's step")
    images, labels = next(iter(batches))
    alone = measure_step(step, images, labels, seconds)
    report("training: both together")
    together_ms, wait_ms = measure_together(batches, step, seconds, warm_up)
    steps_a_call, calls = 1, {}
    if isinstance(step, ModelStep):
        report("several steps in a call")
        steps_a_call = count_present_steps(subject, step)
        calls = measure_executions(subject, step, len(images) / alone.images_per_s, seconds)
    others_share = others.read_share()
    storage = describe_storage(sample_records(subject), subject.view)
    return Figures(
        cold=cold,
        every_image=every_image,
        held=held,
        step=alone,
        together_ms=together_ms,
        wait_ms=wait_ms,
        batch_size=int(images.shape[0]),
        cores=usable_cores(),
        storage=storage,
        could_hold=_could_hold(subject, storage),
        others_share=others_share,
        steps_a_call=steps_a_call,
        calls=calls,
    )


def open_training(subject: Subject, every_image: Stages, seconds: float) -> tuple[Any, int]:
    """Training's batches as in most epochs, and how many batches come before those."""
    feeding, steps = choose_usual(subject, every_image, seconds)
    return subject.read_batches(feeding).skip(steps), count_buffered(feeding)


def _could_hold(subject: Subject, storage: Storage) -> bool:
    index = subject.records.index
    if index is None:
        return False
    if subject.is_held:
        return True
    pixels = int(storage.pixel_bytes * len(index))
    return fits([*subject.memory, MemoryStage("decoded images", pixels, "")], subject.feeding)
