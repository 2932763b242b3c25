"""Tries other settings against the present one."""

from collections.abc import Callable, Iterator
from typing import Any

from image_pipeline.components.feeding import budget
from image_pipeline.components.feeding.finishing import finish, keep_ready
from image_pipeline.components.feeding.found_columns import find_columns
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.labels.kinds import find_kind
from image_pipeline.doctor.calls import count_present_steps, measure_executions
from image_pipeline.doctor.clock import time_batches
from image_pipeline.doctor.race import Sweep, compare, race
from image_pipeline.doctor.reencode import race_encodings
from image_pipeline.doctor.stages import count_buffered, count_images
from image_pipeline.doctor.step import ModelStep, Step, measure_together
from image_pipeline.doctor.subject import Subject, hold_some
from image_pipeline.doctor.verdict import Figures

_PREFETCH_BATCHES = (1, 2, 4, 8)


def sweep_settings(
    subject: Subject,
    step: Step,
    figures: Figures,
    seconds: float,
    report: Callable[[str], None],
) -> Iterator[Sweep]:
    """Tries other settings, so many seconds in each of three rounds; yields finished sweeps."""
    usual, other = _open_variants(subject, figures, seconds)
    report("prefetch_batches")
    yield _sweep_prefetch(subject, usual, step, seconds)
    report("batches in work")
    yield _sweep_work(subject, usual, seconds)
    report("compiled")
    yield _sweep_compiled(subject, usual, seconds)
    if other is not None:
        report("hold_decoded")
        yield _sweep_held(subject, usual, other, seconds)
    report("storage encoding")
    yield _sweep_encoding(subject, figures, seconds)
    if isinstance(step, ModelStep):
        report("steps_per_execution")
        yield _sweep_executions(subject, step, figures, seconds)


class Variants:
    """The input pipeline of `input_fn`, with other settings behind the same reader."""

    def __init__(self, subject: Subject, feeding: FeedingOptions, first_steps: int):
        """Opens the records.

        Args:
          subject: what is measured.
          feeding: its options.
          first_steps: batches before those that are measured.
        """
        self._subject, self._feeding, self._first_steps = subject, feeding, first_steps
        graph_dir = subject.graph_dir
        self._graph = None if graph_dir is None else TransformGraph(graph_dir)
        passes = Passes(mode="train", seed=subject.training.seed, epochs=None)
        others = () if self._graph is None else self._graph.columns
        columns = find_columns(subject.patterns, feeding, others)
        self._kind = find_kind(columns)
        self._images = ImageBatches(subject.patterns, subject.view, feeding, passes, columns).read()

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
    ) -> Callable[[], float]:
        """A measurement of the input alone, in images per second."""
        sizes = count_images(self.open(None, work, compiled))
        warm_up = count_buffered(self._feeding)
        return lambda: time_batches(sizes, seconds, warm_up).images_per_s

    def train(self, step: Step, seconds: float, prefetch: int) -> Callable[[], float]:
        """A measurement of training, in images per second."""
        batches = self.open(prefetch, None, None)
        size, warm_up = self._feeding.batch_size, count_buffered(self._feeding) + prefetch

        return lambda: 1e3 * size / measure_together(batches, step, seconds, warm_up)[0]


def _open_variants(
    subject: Subject, figures: Figures, seconds: float
) -> tuple[Variants, Variants | None]:
    """The input as in most epochs; and the alternative, which holds images if that one does not."""
    each = Variants(subject, subject.measured, 0)
    if not figures.could_hold:
        return each, None
    held = Variants(subject, *hold_some(subject, figures.every_image, seconds))
    return (held, each) if subject.is_held else (each, held)


def _sweep_prefetch(subject: Subject, usual: Variants, step: Step, seconds: float) -> Sweep:
    present = subject.feeding.prefetch_batches
    counts = sorted({*_PREFETCH_BATCHES, present})
    trained = {str(count): usual.train(step, seconds, prefetch=count) for count in counts}
    return compare("feeding.prefetch_batches", "training", race(trained), str(present))


def _sweep_work(subject: Subject, usual: Variants, seconds: float) -> Sweep:
    cores = budget.batches_in_work()
    work = {str(count): usual.read(seconds, work=count) for count in sorted({1, cores, 2 * cores})}
    name = "batches in work (no option: one a core)"
    return compare(name, _word_input(subject), race(work), str(cores))


def _sweep_compiled(subject: Subject, usual: Variants, seconds: float) -> Sweep:
    compiled = {_word(on): usual.read(seconds, compiled=on) for on in (False, True)}
    present = _word(subject.feeding.compiled)
    return compare("feeding.compiled", _word_input(subject), race(compiled), present)


def _sweep_held(subject: Subject, usual: Variants, other: Variants, seconds: float) -> Sweep:
    mine, theirs = usual.read(seconds), other.read(seconds)
    held = {_word(subject.is_held): mine, _word(not subject.is_held): theirs}
    return compare("feeding.hold_decoded", "input", race(held), _word(subject.is_held))


def _sweep_encoding(subject: Subject, figures: Figures, seconds: float) -> Sweep:
    raced, notes = race_encodings(subject, seconds)
    of = "input of a sample, streamed, each image decoded"
    return compare("ingest.prepare.encoding", of, raced, figures.storage.encoding, notes)


def _sweep_executions(subject: Subject, step: ModelStep, figures: Figures, seconds: float) -> Sweep:
    executions = measure_executions(subject, step, figures.step_ms / 1e3, seconds)
    present = str(count_present_steps(subject, step))
    return compare("training.steps_per_execution", "the model's step", executions, present)


def _word_input(subject: Subject) -> str:
    return "input, images in memory" if subject.is_held else "input, each image decoded"


def _word(value: bool) -> str:
    return "true" if value else "false"
