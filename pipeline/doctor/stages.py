"""How long each stage of the input pipeline takes, measured together with those before it."""

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.budget import batches_in_work
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.threads import map_in_order, usable_cores
from image_pipeline.doctor.clock import Rate, middle_rate, time_batches
from image_pipeline.doctor.decodings import list_decodings
from image_pipeline.doctor.pages import drop_cached_pages
from image_pipeline.doctor.subject import Subject, draw_rows, hold_some, stream_batches
from image_pipeline.doctor.verdict import Stages

READ, DECODE, VIEWS, AUGMENT, TRANSFORM = "read", "decode", "views", "augment", "transform"
# Batches in parallel, and images handed to a thread at once, as in training.
_BATCHES_AT_ONCE, _CHUNK = 2, 8
_ROUNDS = 3


def measure_input(
    subject: Subject, seconds: float, report: Callable[[str], None]
) -> tuple[Rate | None, Stages, Stages]:
    """Measures all stages, for this many seconds each; reports each measurement before it starts.

    The stages take turns, so that other work on the machine disturbs all of them alike.

    Returns:
      `cold`, `every_image` and `held` of `Figures`.
    """
    report("reading from the disk")
    cold = _read_cold(subject, seconds)
    queued = 4 * _BATCHES_AT_ONCE  # of `map_in_order`
    runs = [(READ, _read(subject, None), queued), (DECODE, _decode(subject), queued)]
    runs += _open_views(subject, subject.measured)
    every_image = _take_turns(subject, runs, seconds, report)
    if not subject.is_held:
        return cold, every_image, {}
    feeding, steps = hold_some(subject, every_image, seconds)
    runs = _open_views(subject, feeding)
    for name, sizes, _ in runs:
        report(f"{name}: taking images into memory")
        time_batches(sizes, 0.0, warm_up=0, least=steps)
    return cold, every_image, _take_turns(subject, runs, seconds, report)


def _take_turns(
    subject: Subject,
    runs: list[tuple[str, Iterator[int], int]],
    seconds: float,
    report: Callable[[str], None],
) -> Stages:
    """Measures each run (name, sizes of batches, how many may be ready beforehand) in rounds."""
    rates: dict[str, list[Rate]] = {name: [] for name, _, _ in runs}
    for number in range(_ROUNDS):
        for name, sizes, ready in runs:
            report(f"{name} ({number + 1} of {_ROUNDS})")
            # What memory cannot hold is read from the disk in every epoch, so also here.
            if not subject.stays:
                drop_cached_pages(subject.paths)
            rates[name].append(time_batches(sizes, seconds / _ROUNDS, ready))
    return {name: middle_rate(own) for name, own in rates.items()}


def _open_views(subject: Subject, feeding: FeedingOptions) -> list[tuple[str, Iterator[int], int]]:
    return [
        (name, count_images(subject.read_batches(options)), count_buffered(options))
        for name, options in list_views(subject, feeding)
    ]


def list_views(subject: Subject, feeding: FeedingOptions) -> list[tuple[str, FeedingOptions]]:
    """The stages after decoding, each with the options that make input_fn end there."""
    crop = () if feeding.crop is None else (feeding.crop,)
    # With uint8 the transform graph looks labels up, but leaves pixels as they are.
    stages = [
        (VIEWS, feeding.model_copy(update={"augment": crop, "dtype": "uint8"})),
        (AUGMENT, feeding.model_copy(update={"dtype": "uint8"})),
    ]
    return stages + ([(TRANSFORM, feeding)] if subject.graph_dir is not None else [])


def count_buffered(feeding: FeedingOptions) -> int:
    """How many batches are in progress or ready before the first one is taken."""
    return feeding.prefetch_batches + batches_in_work() + _BATCHES_AT_ONCE


def count_images(batches: Any) -> Iterator[int]:
    """The batch sizes of a data set of images and labels."""
    return (int(images.shape[0]) for images, _ in batches)


def _read_cold(subject: Subject, seconds: float) -> Rate | None:
    """Reads each record at most once: the second time it would come from memory."""
    if not drop_cached_pages(subject.paths):
        return None
    return time_batches(_read(subject, epochs=1), seconds, warm_up=0)


def _read(subject: Subject, epochs: int | None) -> Iterator[int]:
    """Reads batches, without decoding; yields their sizes."""
    index = subject.records.index
    if index is None:
        return (len(batch) for batch in stream_batches(subject, epochs))
    verify = subject.feeding.verify != "none"
    stored = StoredRecords(index)
    rows = draw_rows(subject, epochs)
    return _do_side_by_side(subject, lambda row: stored.read(row, verify), rows)


def _decode(subject: Subject) -> Iterator[int]:
    """Reads batches, and decodes what training needs of them; yields their sizes."""
    return _do_side_by_side(subject, lambda decode: decode(), list_decodings(subject))


def _do_side_by_side(
    subject: Subject, function: Callable[[Any], Any], batches: Iterator[list[Any]]
) -> Iterator[int]:
    """Applies a function to each image as training does: in a pool, two batches at once.

    A `UserError` ends it, unless training would skip the record.
    """
    skipped = (UserError,) if subject.feeding.bad_records == "skip" else ()
    with concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool:

        def do_chunk(chunk: list[Any]) -> None:
            for item in chunk:
                with contextlib.suppress(*skipped):
                    function(item)

        def do_batch(batch: list[Any]) -> int:
            chunks = [batch[start : start + _CHUNK] for start in range(0, len(batch), _CHUNK)]
            for future in [pool.submit(do_chunk, chunk) for chunk in chunks]:
                future.result()
            return len(batch)

        yield from map_in_order(do_batch, batches, _BATCHES_AT_ONCE)
