"""The user's own input pipeline: opened as training opens it, and timed stage by stage."""

import collections
import contextlib
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psutil

from image_pipeline.components import files
from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import budget
from image_pipeline.components.feeding.finishing import keep_ready
from image_pipeline.components.feeding.images import BatchMaker
from image_pipeline.components.feeding.input_fn import input_fn, list_batches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.python_calls import call_python
from image_pipeline.components.feeding.reader import ROW, WINDOW
from image_pipeline.components.feeding.records import match_files, open_records
from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.order.batches import steps_per_epoch
from image_pipeline.components.threads import usable_cores
from image_pipeline.components.views.fast import find_needed
from image_pipeline.components.views.fast_decode import decode_window
from image_pipeline.config import PipelineConfig
from image_pipeline.doctor.figures import (
    Rate,
    StageRate,
    Storage,
    middle_rate,
    tell_own,
    time_batches,
)

# Images by which sizes and encodings are told, and how much of each tells its encoding.
_SEEN, _SIGNATURE_BYTES = 256, 16
# More than processors' caches hold, but little compared with main memory.
_MOST_HELD_BYTES = 256e6
# Batches that are read in parallel, as in training.
_AT_ONCE = 2
_ROUNDS = 3


class Subject:
    """What is measured: the train split, as training reads it.

    Attributes:
      measured: the same, so that every image costs the same.
      records: the opened records, in training's order.
      memory: what the input pipeline holds in memory, stage by stage.
      could_hold: whether all decoded images would fit into the memory allowed for them.
      stays: whether the shards fit into memory as files, so that only the first epoch reads a disk.
      seen: of the images that were read last, how each begins (b"" if it is raw), its bytes and
        pixels.
    """

    def __init__(self, config: PipelineConfig, pattern: str, graph_dir: str | None):
        """Opens the records, and plans what reading them holds in memory.

        Raises:
          UserError: if the options do not fit the data set.
        """
        self.view, self.feeding, self.training = config.view, config.feeding, config.training
        if self.view.dtype != "uint8" or self.view.channels not in (1, 3):
            raise UserError(
                "the doctor measures 8-bit gray or RGB images only, but view has "
                f"dtype={self.view.dtype} and channels={self.view.channels}; `image-pipeline run` "
                "says how long training waited for its input."
            )
        self.graph_dir, self.paths = graph_dir, match_files([pattern])
        holding = self.feeding.model_copy(update={"hold_decoded": True})
        passes = Passes(mode="train", seed=self.training.seed)
        self.records = open_records(self.paths, self.view, holding, passes)
        self.memory = self.records.plan_memory("train")
        decoded = self.records.hold_decoded(self.memory)
        self.could_hold = bool(decoded)
        self.memory += decoded if self.feeding.hold_decoded else []
        # The last batch of an epoch is left out (XLA would compile once more for its size), and
        # images are decoded each time.
        fills_one = self.records.count() >= self.feeding.batch_size
        measured = {"remainder": "drop" if fills_one else "keep", "hold_decoded": False}
        self.measured = self.feeding.model_copy(update=measured)
        self.stays = all(map(files.is_local, self.paths)) and (
            sum(map(os.path.getsize, self.paths)) <= psutil.virtual_memory().available
        )
        self.seen: collections.deque[tuple[bytes, int, int]] = collections.deque(maxlen=_SEEN)

    def read_batches(self, feeding: FeedingOptions) -> Any:
        """Training's batches with these options, endless: a data set of images and labels."""
        return input_fn(
            self.paths,
            view=self.view,
            feeding=feeding,
            transform_graph_dir=self.graph_dir,
            mode="train",
            seed=self.training.seed,
            epochs=None,
        )


def describe_storage(subject: Subject) -> Storage:
    """How the images are stored that were read last."""
    signatures, sizes, pixels = zip(*subject.seen, strict=True)
    view = subject.view
    return Storage(
        encoding=statistics.mode(tell_kind(each).name if each else "raw" for each in signatures),
        stored_bytes=statistics.fmean(sizes),
        pixel_bytes=statistics.fmean(pixels) * view.channels,
        view_bytes=float(view.height_px * view.width_px * view.channels),
    )


def hold_some(subject: Subject, decode: Rate, seconds: float) -> tuple[FeedingOptions, int]:
    """Options for measuring images held in memory: few enough that they are soon decoded.

    Args:
      subject: what is measured; its images are held.
      decode: how fast they are read and decoded, which determines how many images that is.
      seconds: how long decoding them may take; at least some batches are decoded.

    Returns:
      The options, and the steps of an epoch with them, after which all are held.
    """
    most, index = subject.records.count(), subject.records.index
    sizes = (rows.height.astype(np.int64) @ rows.width for rows in index.scan())
    pixels = sum(map(int, sizes)) / len(index)
    fitting = int(_MOST_HELD_BYTES / (pixels * subject.view.channels))
    images = min(int(seconds * decode.images_per_s), fitting)
    wanted = min(max(images, 8 * subject.feeding.batch_size), most)
    select = subject.feeding.select
    feeding = subject.measured.model_copy(
        update={
            "hold_decoded": True,
            # Some of the records may lack classes that have a weight.
            "balance": "none",
            "select": select.model_copy(update={"fraction": select.fraction * wanted / most}),
        }
    )
    # As many steps as they take to come once, whatever their order.
    records = open_records(subject.paths, subject.view, feeding, Passes(mode="train"))
    return feeding, steps_per_epoch(records.count(), feeding.batch_size, feeding.remainder)


def measure_stages(
    subject: Subject,
    feeding: FeedingOptions,
    seconds: float,
    report: Callable[[str], None],
    first_steps: int = 0,
) -> dict[str, StageRate]:
    """Times each stage of the input together with those before it, for this many seconds.

    The stages take turns, so that other work on the machine disturbs all of them alike.

    Args:
      subject: what is measured.
      feeding: its options; where images are held, none is read or decoded.
      seconds: duration of each measurement.
      report: called with what is measured next.
      first_steps: batches before those that are measured, in which images are taken into memory.

    Raises:
      UserError: if a record is damaged; or TensorFlow's error, around one.
    """
    stages: dict[str, Iterator[int]] = {}
    if not feeding.hold_decoded:
        stages["read"] = read_images(subject, decodes=False)
        stages["decode"] = read_images(subject, decodes=True)
    # What comes after decoding is `input_fn` with options that make it end there. With uint8 the
    # transform graph looks labels up, but leaves pixels as they are.
    crop = () if feeding.crop is None else (feeding.crop,)
    ends: dict[str, dict[str, Any]] = {
        "views": {"augment": crop, "dtype": "uint8"},
        "augment": {"dtype": "uint8"},
    }
    if subject.graph_dir is not None:
        ends["transform"] = {}
    for name, changes in ends.items():
        stages[name] = count_images(subject.read_batches(feeding.model_copy(update=changes)))
    for name, sizes in stages.items() if first_steps else ():
        report(f"{name}: taking images into memory")
        time_batches(sizes, 0.0, warm_up=0, least=first_steps)
    rates: dict[str, list[Rate]] = {name: [] for name in stages}
    for number in range(_ROUNDS):
        for name, sizes in stages.items():
            report(f"{name} ({number + 1} of {_ROUNDS})")
            # What memory cannot hold is read from the disk in every epoch, so also here.
            if not subject.stays:
                drop_cached_pages(subject.paths)
            rates[name].append(time_batches(sizes, seconds / _ROUNDS, count_buffered(feeding)))
    middle = {name: middle_rate(own) for name, own in rates.items()}
    return tell_own(middle, usable_cores())


def count_images(batches: Any) -> Iterator[int]:
    """The batch sizes of a data set of images and labels."""
    return (int(images.shape[0]) for images, _ in batches)


def count_buffered(feeding: FeedingOptions) -> int:
    """How many batches are in progress or ready before the first one is taken."""
    return feeding.prefetch_batches + budget.batches_in_work() + _AT_ONCE


def read_images(subject: Subject, decodes: bool, epochs: int | None = None) -> Iterator[int]:
    """Reads training's images, batch after batch, but makes no views; yields the batches' sizes.

    Args:
      subject: what is measured.
      decodes: whether they are decoded: of JPEGs in tiles, no more than the drawn crops need.
      epochs: how often each record is read; None for without an end.

    Raises:
      UserError: around a record that is damaged, unless training would skip it; by TensorFlow.
    """
    view, feeding = subject.view, subject.measured
    passes = Passes(mode="train", seed=subject.training.seed, epochs=epochs)
    records = open_records(subject.paths, view, feeding, passes)
    stored, maker = StoredRecords(records.index), BatchMaker(view)
    skipped = (UserError,) if feeding.bad_records == "skip" else ()

    def load_one(row: int, window: np.ndarray | None) -> None:
        try:
            image = fetch(stored.read_image(row, feeding.verify != "none"))
            if decodes:
                needed = find_needed((image.height, image.width), window, view)
                decode_window(image, view.channels, needed)
        except ValueError as error:
            raise stored.bad_record(row, error) from error
        signature = b"" if image.is_raw else bytes(image.encoded[:_SIGNATURE_BYTES])
        subject.seen.append((signature, len(image.encoded), image.height * image.width))

    def load(epoch: np.int64, step: np.int64) -> list[np.ndarray]:
        drawn = records.draw(int(epoch), int(step))
        rows, windows = drawn[ROW].tolist(), drawn.get(WINDOW)

        def fill(number: int, _: np.ndarray) -> None:
            with contextlib.suppress(*skipped):
                load_one(rows[number], None if windows is None else windows[number])

        maker.make(fill, len(rows))
        return [np.zeros(len(rows), np.uint8)]

    loaded = list_batches(passes, records.steps).map(
        lambda *batch: call_python(load, batch, [np.uint8])[0], _AT_ONCE, True
    )
    ready = keep_ready(loaded, feeding.prefetch_batches)
    return (len(batch) for batch in ready.as_numpy_iterator())


def drop_cached_pages(paths: Sequence[str]) -> bool:
    """Makes the operating system drop its cached copies of some files, so that the disk is read.

    Returns:
      Whether that was possible: only for local files on Linux.
    """
    if not hasattr(os, "posix_fadvise") or not all(map(files.is_local, paths)):
        return False
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return True
