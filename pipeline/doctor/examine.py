"""The examination, from the records to the advice: every measurement, one after the other."""

import dataclasses
import datetime
import itertools
import os

from rich.console import Console

from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import usable_cores
from image_pipeline.components.training.profile import describe_trace, record_trace
from image_pipeline.config import PipelineConfig
from image_pipeline.doctor.figures import (
    Figures,
    Rate,
    Stages,
    read_clocks,
    share_of_others,
    time_batches,
)
from image_pipeline.doctor.input import (
    Subject,
    count_buffered,
    describe_storage,
    drop_cached_pages,
    hold_some,
    measure_stages,
    read_images,
)
from image_pipeline.doctor.show import print_examination, word_verdict
from image_pipeline.doctor.step import ModelStep, measure_calls, measure_together, wait_instead
from image_pipeline.doctor.verdict import Examination, advise, judge
from image_pipeline.run_config import dump_stored
from image_pipeline.show.terminal import print_profile, print_rows


def examine(
    config: PipelineConfig,
    pattern: str,
    graph_dir: str | None,
    *,
    seconds: float,
    step_ms: float | None,
    profile_steps: int | None,
    profile_dir: str,
    console: Console,
) -> Examination:
    """Measures what limits training, and prints it.

    Args:
      config: the run's options.
      pattern: matches the shards of the train split.
      graph_dir: the transform graph's folder; None measures without one.
      seconds: duration of each measurement.
      step_ms: duration of a step of the user's own model; None measures the run's model.
      profile_steps: how many training steps to trace afterwards; None traces none.
      profile_dir: where the trace goes.
      console: where to print.

    Raises:
      UserError: if an option does not fit the data set, the model cannot be loaded, the trace
        cannot be written, or a record is damaged (or TensorFlow's error, around that).
    """
    if profile_steps is not None:
        try:
            os.makedirs(profile_dir, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"--profile-dir must be a folder that can be written, got {profile_dir!r}: "
                f"{error.strerror}; name another one."
            ) from error
    subject = Subject(config, pattern, graph_dir)
    graph = graph_dir or "none: its stage is not measured, and the model gets raw pixels"
    shards = f"the train split, shards: {len(subject.paths):,}"
    if not subject.stays:
        shards += "; memory cannot hold them, so the disk is read in every measurement"
    print_rows([("measured on", shards), ("transform graph", graph)], console)
    step = ModelStep(subject) if step_ms is None else wait_instead(step_ms)
    clocks = read_clocks()
    with console.status("opening …") as status:

        def report(text: str) -> None:
            status.update(f"measuring: {text} …")

        # The input alone. From a cold disk each record is read at most once: the second time it
        # would come from memory.
        report("reading from the disk")
        cold = None
        if drop_cached_pages(subject.paths):
            cold = time_batches(read_images(subject, False, epochs=1), seconds, warm_up=0)
        every_image = measure_stages(subject, subject.measured, seconds, report)
        usual, first_steps, held = subject.measured, 0, {}
        if subject.could_hold and subject.feeding.hold_decoded:
            usual, first_steps = hold_some(subject, every_image["decode"], seconds)
            held = measure_stages(subject, usual, seconds, report, first_steps)

        # The model alone, on one batch. One that only waits takes its given time.
        report("the model's step")
        images, labels = next(iter(subject.read_batches(subject.measured)))
        size = int(images.shape[0])
        if step_ms is None:
            repeated = (step(images, labels) for _ in itertools.count())
            alone = time_batches(repeated, seconds, warm_up=1, least=1)
        else:
            alone = Rate(images=size, images_per_s=1e3 * size / step_ms, cpu_s_an_image=0.0)

        # Both together, as in most epochs: how long does the model wait?
        report("training: both together")
        batches = iter(subject.read_batches(usual).skip(first_steps))
        warm_up = count_buffered(usual)
        together_ms, wait_ms = measure_together(batches, step, seconds, warm_up)
        steps_a_call, calls = 1, {}
        if isinstance(step, ModelStep):
            report("several steps in a call")
            steps_a_call = step.steps_a_call
            calls = measure_calls(subject, step, size / alone.images_per_s, seconds)

        figures = Figures(
            stages=Stages(read_cold=cold, every_image=every_image, held=held, step=alone),
            others_share=share_of_others(clocks, read_clocks()),
            batch_size=size,
            cores=usable_cores(),
            together_ms=together_ms,
            wait_ms=wait_ms,
            steps_a_call=steps_a_call,
            calls=calls,
            storage=describe_storage(subject),
            memory=subject.memory,
            could_hold=subject.could_hold,
        )
        verdict = judge(figures)
        changes = advise(figures, verdict.limit, subject.feeding)
        line = word_verdict(figures, verdict, changes)
        found = Examination(
            measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            seconds=seconds,
            given_step_ms=step_ms,
            options=dump_stored(config),
            line=line,
            verdict=verdict,
            changes=changes,
            **vars(figures),
        )
        print_examination(found, console)

        if profile_steps is not None:
            report("the profile")
            for images, labels in itertools.islice(batches, warm_up):  # Which fill buffers again.
                step(images, labels)
            with record_trace(profile_dir):
                for images, labels in itertools.islice(batches, profile_steps):
                    step(images, labels)
            profile = dataclasses.asdict(describe_trace(profile_dir, profile_steps))
            print_profile(profile, console)
            found = dataclasses.replace(found, profile=profile)
    return found
