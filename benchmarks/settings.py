"""What other settings of the input pipeline do to training on one's own data.

    python -m benchmarks.settings OUT [--config FILE] [--seconds 1] [--rounds 3] [--step-ms MS]

OUT is the output folder of a run, or one that ingest wrote. Settings take turns, round by round, so
that disturbances affect all alike; printed are images a second, and the median of the rounds'
ratios to the present setting, with the least and the greatest. With `prefetch_batches`, the model's
step follows the input; with the others, the input is measured alone. Encodings: `encodings.py`.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from image_pipeline.components.feeding import budget
from image_pipeline.components.feeding.finishing import finish, keep_ready
from image_pipeline.components.feeding.found_columns import find_columns
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.records import find_label_kind, read_manifests
from image_pipeline.doctor.figures import time_batches
from image_pipeline.doctor.input import (
    Subject,
    count_buffered,
    count_images,
    hold_some,
    measure_stages,
)
from image_pipeline.doctor.step import ModelStep, Step, measure_together, wait_instead
from image_pipeline.named_folder import find_source, list_split
from image_pipeline.run_config import read_config

_PREFETCH_BATCHES = (1, 2, 4, 8)
Measurement = Callable[[], float]
"""Gives images a second."""


class Variants:
    """The input pipeline of `input_fn`, with other settings behind the same reader."""

    def __init__(self, subject: Subject, feeding: FeedingOptions, first_steps: int = 0):
        """Opens the records.

        Args:
          subject: what is measured.
          feeding: its options.
          first_steps: batches before those that are measured.
        """
        self._subject, self._feeding, self._first_steps = subject, feeding, first_steps
        self._graph = None if subject.graph_dir is None else TransformGraph(subject.graph_dir)
        passes = Passes(mode="train", seed=subject.training.seed, epochs=None)
        others = () if self._graph is None else self._graph.columns
        self._kind = find_label_kind(subject.paths)
        manifests = read_manifests(subject.paths)
        columns = find_columns(manifests, self._kind, feeding, others)
        self._images = ImageBatches(subject.paths, subject.view, feeding, passes, columns).read()

    def open(self, prefetch: int | None, work: int | None, compiled: bool | None) -> Iterator[Any]:
        """Endless batches; None leaves a setting as it is."""
        feeding = self._feeding
        if compiled is not None:
            feeding = feeding.model_copy(update={"compiled": compiled})
        view = self._subject.view
        batches = finish(self._images, self._graph, feeding, view, True, self._kind, work)
        ready = keep_ready(batches, prefetch or feeding.prefetch_batches)
        return iter(ready.skip(self._first_steps))

    def read(
        self, seconds: float, work: int | None = None, compiled: bool | None = None
    ) -> Measurement:
        """A measurement of the input alone."""
        sizes = count_images(self.open(None, work, compiled))
        warm_up = count_buffered(self._feeding)
        return lambda: time_batches(sizes, seconds, warm_up).images_per_s

    def train(self, step: Step, seconds: float, prefetch: int) -> Measurement:
        """A measurement of training."""
        batches = self.open(prefetch, None, None)
        size, warm_up = self._feeding.batch_size, count_buffered(self._feeding) + prefetch
        return lambda: 1e3 * size / measure_together(batches, step, seconds, warm_up)[0]


def list_settings(
    subject: Subject, step: Step, seconds: float
) -> Iterator[tuple[str, str, Mapping[str, Measurement]]]:
    """Names of settings, the present value of each, and a measurement for each value."""
    usual, other = Variants(subject, subject.measured), None
    if subject.could_hold and subject.feeding.hold_decoded:
        stages = measure_stages(subject, subject.measured, seconds, lambda _: None)
        usual, other = Variants(subject, *hold_some(subject, stages["decode"], seconds)), usual
    present = subject.feeding.prefetch_batches
    counts = sorted({*_PREFETCH_BATCHES, present})
    trained = {str(count): usual.train(step, seconds, prefetch=count) for count in counts}
    yield "feeding.prefetch_batches", str(present), trained
    cores = budget.batches_in_work()
    works = sorted({1, cores, 2 * cores})
    work = {str(count): usual.read(seconds, work=count) for count in works}
    yield "batches in work (no option: one a core)", str(cores), work
    compiled = {str(on): usual.read(seconds, compiled=on) for on in (False, True)}
    yield "feeding.compiled", str(subject.feeding.compiled), compiled
    if other is not None:
        held = {"True": usual.read(seconds), "False": other.read(seconds)}
        yield "feeding.hold_decoded", "True", held


def race(measurements: Mapping[str, Measurement], rounds: int) -> dict[str, list[float]]:
    """Measures each value once per round: value to its result in each round."""
    each = [{value: measure() for value, measure in measurements.items()} for _ in range(rounds)]
    return {value: [figures[value] for figures in each] for value in measurements}


def print_setting(name: str, present: str, figures: Mapping[str, list[float]]) -> None:
    """Prints a table of a setting's values, beside the present one in the same rounds."""
    print(f"\n{name}\n| value | images/s | ratio | of rounds |\n|---|---|---|---|")
    for value, own in figures.items():
        ratios = [mine / theirs for mine, theirs in zip(own, figures[present], strict=True)]
        ends = f"{min(ratios):.2f} to {max(ratios):.2f}"
        shown = f"{value} (present)" if value == present else value
        rate, ratio = statistics.median(own), statistics.median(ratios)
        print(f"| {shown} | {rate:,.0f} | {ratio:.2f} | {ends} |", flush=True)


def main() -> None:
    """Measures all settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--config")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step-ms", type=float, help="of a step, in place of the run's model")
    asked = parser.parse_args()
    source = find_source(asked.out)
    config = read_config(source, asked.config, ())
    pattern = list_split(source.data_dir, "train")
    subject = Subject(config, pattern, source.graph_dir)
    step = ModelStep(subject) if asked.step_ms is None else wait_instead(asked.step_ms)
    for name, present, measurements in list_settings(subject, step, asked.seconds):
        print_setting(name, present, race(measurements, asked.rounds))


if __name__ == "__main__":
    main()
