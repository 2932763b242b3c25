"""The two ways to read records: by their index, or shard by shard from the beginning."""

import logging
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import RecordIndex, find_index
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.budget import Stage, Use
from image_pipeline.components.feeding.indexed import IndexedRecords
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import Tensors
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.shard_files import match_files
from image_pipeline.components.feeding.streaming import StreamedRecords
from image_pipeline.components.files import check_known_to_tensorflow
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


class Records(Protocol):
    """The records of some shards, epoch by epoch: what both ways to read them can do.

    `IndexedRecords` says more of each method.
    """

    @property
    def index(self) -> RecordIndex | None:
        """Where each record is; None where shards are read from their beginning on."""

    @property
    def steps(self) -> int | None:
        """The batches of an epoch; None where only reading tells."""

    def count(self) -> int:
        """The records of an epoch, read once where there is no index."""

    def check_step(self, first_step: int) -> None:
        """Raises UserError if an epoch is known to have no batch of this number."""

    def plan_memory(self, use: Use) -> list[Stage]:
        """What reading batches holds in memory."""

    def hold_decoded(self, others: list[Stage]) -> list[Stage]:
        """Decodes each image only once from now on, if all fit; returns the stage that this is."""

    def list_batches(self, epoch: tf.Tensor, first_step: tf.Tensor) -> tf.data.Dataset:
        """What `draw_batch` takes for each batch of one epoch, from `first_step` on."""

    def draw_batch(self, epoch: tf.Tensor, batch: tf.Tensor) -> Tensors:
        """Which records a batch holds: by its number, or by the serialized records themselves."""

    def make_images(
        self, drawn: Tensors, windows: tf.Tensor | None, is_first: tf.Tensor
    ) -> Tensors:
        """Reads, decodes, crops and resizes the images of a batch."""


def open_records(
    files: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    passes: Passes,
    columns: Sequence[record.Column] = (),
) -> Records:
    """Chooses between the index and streaming; logs in one line which, and why.

    Args:
      files: shards, or patterns of them.
      view: the model's input size.
      feeding: the source, and what needs it.
      passes: which epochs are read.
      columns: further scalar columns to read.

    Raises:
      UserError: if a pattern matches no file, or what is asked for needs an index, and there is
        none.
    """
    served = passes.training and feeding.data_service is not None
    if served and files:  # Its workers are TensorFlow's, which call no Python.
        check_known_to_tensorflow(files[0], "with feeding.data_service, the data set")
    paths = match_files(files)
    streams = feeding.source == "streaming" or served
    index = None if streams else find_index(paths)
    if index is not None:
        return IndexedRecords(index, view, feeding, passes, columns)
    if feeding.source == "indexed" or feeding.index_options():
        needing = feeding.index_options() or ["source=indexed"]
        raise UserError(
            f"feeding.{', '.join(needing)} needs shards with an index on a local disk, but "
            f"{paths[0]} has none beside its Split folder; ingest again, or stream without it."
        )
    _LOG.info("Streaming %d shards through a shuffle window: %s.", len(paths), _why(feeding))
    return StreamedRecords(paths, view, feeding, passes, columns)


def _why(feeding: FeedingOptions) -> str:
    """Why records stream, in words."""
    if feeding.data_service is not None:
        return "feeding.data_service is set"
    if feeding.source == "streaming":
        return "feeding.source=streaming"
    return "there is no index beside them on a local disk"
