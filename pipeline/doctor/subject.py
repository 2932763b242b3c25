"""What the doctor examines: some shards, and the options with which training reads them."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.budget import Stage
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.records import Records, open_records
from image_pipeline.components.feeding.shard_files import find_reader, match_files
from image_pipeline.components.feeding.streaming import StreamedRecords
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import steps_per_epoch
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.doctor.pages import stays_in_memory
from image_pipeline.doctor.verdict import Stages, Storage

# Records from which sizes and formats are determined.
_SAMPLE = 256
# More than processors' caches hold, but little compared with main memory.
_MOST_HELD_BYTES = 256e6


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is measured.

    Attributes:
      patterns: of the shards of the train split.
      paths: these shards.
      view: the model's input size.
      feeding: the user's feeding options.
      training: the user's training options.
      graph_dir: the transform graph's folder, or None.
      records: the opened records, in training's order.
      memory: what the input pipeline holds in memory, stage by stage.
      is_held: whether images are decoded once, and kept.
      stays: whether the shards fit into memory as files, so that only the first epoch reads a disk.
    """

    patterns: Sequence[str]
    paths: list[str]
    view: ViewOptions
    feeding: FeedingOptions
    training: TrainingOptions
    graph_dir: str | None
    records: Records
    memory: tuple[Stage, ...]
    is_held: bool
    stays: bool

    @property
    def measured(self) -> FeedingOptions:
        """The options under which every image costs the same.

        The last batch of an epoch is left out (XLA would compile once more for its size), the
        shuffle window is small (filling it only takes time), and images are decoded each time.
        """
        feeding, size = self.feeding, self.feeding.batch_size
        remainder = "drop" if self.records.count() >= size else "keep"
        return feeding.model_copy(
            update={
                "remainder": remainder,
                "shuffle_records": min(feeding.shuffle_records, 2 * size),
                "hold_decoded": False,
            }
        )

    def read_batches(self, feeding: FeedingOptions, paths: Sequence[str] = ()) -> Any:
        """Training's batches with these options, endless: a data set of images and labels."""
        return input_fn(
            paths or self.patterns,
            view=self.view,
            feeding=feeding,
            transform_graph_dir=self.graph_dir,
            mode="train",
            seed=self.training.seed,
            epochs=None,
        )


def open_subject(
    patterns: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    training: TrainingOptions,
    graph_dir: str | None,
) -> Subject:
    """Opens the records, and plans what reading them holds in memory.

    Raises:
      UserError: if the options do not fit the data set, or if other machines would read it.
    """
    if feeding.data_service is not None:
        raise UserError(
            "the doctor measures how this machine reads, but feeding.data_service is "
            f"{feeding.data_service!r}, whose workers read elsewhere; --set "
            "feeding.data_service=null to measure reading without it."
        )
    if view.dtype != "uint8" or view.channels not in (1, 3):
        raise UserError(
            "the doctor measures 8-bit gray or RGB images only, but view has "
            f"dtype={view.dtype} and channels={view.channels}; `image-pipeline run` says how long "
            "training waited for its input."
        )
    paths = match_files(patterns)
    records = open_records(patterns, view, feeding, Passes(mode="train", seed=training.seed))
    stages = records.plan_memory("train")
    held = records.hold_decoded(stages)
    memory = (*stages, *held)
    stays = stays_in_memory(paths)
    return Subject(
        *(patterns, paths, view, feeding, training, graph_dir, records, memory, bool(held), stays)
    )


def sample_records(subject: Subject) -> np.ndarray:
    """Some serialized records: object [up to 256], of all shards.

    Where there is an index, they are read by it: TensorFlow verifies what `feeding.verify` does
    not, and ends at what `feeding.bad_records` skips.
    """
    if subject.records.index is not None:
        return _sample_rows(StoredRecords(subject.records.index))
    paths = subject.paths
    share = -(-_SAMPLE // len(paths))
    shards = (itertools.islice(_read_shard(path), share) for path in paths)
    return np.array(list(itertools.islice(itertools.chain.from_iterable(shards), _SAMPLE)), object)


def _sample_rows(records: StoredRecords) -> np.ndarray:
    most = len(records.index) - 1
    sample = []
    for row in np.linspace(0, most, min(_SAMPLE, most + 1), dtype=int).tolist():
        # What a cut shard lacks has been reported before, or is skipped in training too.
        with contextlib.suppress(UserError):
            sample.append(records.read(row))
    return np.array(sample, object)


def describe_storage(sample: np.ndarray, view: ViewOptions) -> Storage:
    """Tells how these serialized records store their images."""
    columns = parse.columns_to_parse(())
    features = {key: value.numpy() for key, value in parse.parse_batch(sample, columns).items()}
    names, counts = np.unique(features[record.FORMAT].astype(str), return_counts=True)
    pixels = features[record.HEIGHT] * features[record.WIDTH] * view.channels
    return Storage(
        encoding=str(names[counts.argmax()]),
        stored_bytes=float(np.mean([len(image) for image in features[record.IMAGE]])),
        pixel_bytes=float(pixels.mean()),
        view_bytes=float(view.height_px * view.width_px * view.channels),
    )


def choose_usual(
    subject: Subject, every_image: Stages, seconds: float
) -> tuple[FeedingOptions, int]:
    """The options of most epochs, and how many steps come before those."""
    if not subject.is_held:
        return subject.measured, 0
    return hold_some(subject, every_image, seconds)


def hold_some(subject: Subject, every_image: Stages, seconds: float) -> tuple[FeedingOptions, int]:
    """Options for measuring images held in memory: few enough that they are soon decoded.

    Args:
      subject: what is measured; its images are held.
      every_image: the stages; decoding determines how many images that is.
      seconds: how long decoding them may take; at least some batches are decoded.

    Returns:
      The options, and the steps of an epoch with them, after which all are held.
    """
    most, index = subject.records.count(), subject.records.index
    assert index is not None  # or no image would be held
    pixels = float((index.height.astype(np.int64) * index.width).mean())
    decoded = int(seconds * every_image["decode"].images_per_s)
    images = min(decoded, int(_MOST_HELD_BYTES / (pixels * subject.view.channels)))
    wanted = min(max(images, 8 * subject.feeding.batch_size), most)
    select = subject.feeding.select
    fraction = max(select.fraction * wanted / most, 1e-6)
    feeding = subject.measured.model_copy(
        update={
            "hold_decoded": True,
            # Some of the records may lack classes that have a weight.
            "balance": "none",
            "select": select.model_copy(update={"fraction": min(1.0, fraction)}),
        }
    )
    # As many steps as they take to come once, whatever their order.
    records = open_records(subject.patterns, subject.view, feeding, Passes(mode="train"))
    return feeding, steps_per_epoch(records.count(), feeding.batch_size, feeding.remainder)


def stream_batches(subject: Subject, epochs: int | None) -> Iterator[np.ndarray]:
    """Batches of serialized records (object [batch]), from the beginning of each shard."""
    passes, size = Passes(mode="eval", epochs=epochs), subject.feeding.batch_size
    records = StreamedRecords(subject.paths, subject.view, subject.measured, passes)
    batches = passes.count_epochs().flat_map(
        lambda epoch: records.read_serialized(epoch).batch(size)
    )
    return batches.as_numpy_iterator()


def draw_rows(subject: Subject, epochs: int | None) -> Iterator[list[int]]:
    """The rows of batch after batch, in training's order, of records with an index."""
    records = subject.records

    def draw_epoch(epoch: Any) -> Any:
        steps = records.list_batches(epoch, 0)
        return steps.map(lambda step: records.draw_batch(epoch, step)["row"])

    numbers = Passes(mode="train", epochs=epochs).count_epochs()
    return (rows.tolist() for rows in numbers.flat_map(draw_epoch).as_numpy_iterator())


def _read_shard(path: str) -> Iterator[bytes]:
    return find_reader([path])(np.array(path)).as_numpy_iterator()
