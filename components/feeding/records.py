"""The two ways to read records: by their index, or shard by shard from the beginning."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import tensorflow as tf
from google.protobuf.message import DecodeError

from image_pipeline.components.augment.batch import Moved
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.columns import choose_columns
from image_pipeline.components.dataset.index import RecordIndex, find_index
from image_pipeline.components.dataset.manifest import Manifest, has_manifest, read_manifest
from image_pipeline.components.dataset.paths import group_by_root, match_path
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import boxes
from image_pipeline.components.feeding.budget import Stage, Use
from image_pipeline.components.feeding.indexed import IndexedRecords
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import Tensors, name_length
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.shard_files import find_reader, match_files
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

    def draw_epoch(self, epoch: tf.Tensor, first_step: tf.Tensor) -> tf.data.Dataset:
        """What the batches of one epoch hold, from a step on."""

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
    keep: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Records:
    """Chooses between the index and streaming; logs in one line which, and why.

    Args:
      files: shards, or patterns of them.
      view: the model's input size.
      feeding: the source, and what needs it.
      passes: which epochs are read.
      columns: further scalar columns to read.
      keep: see `StreamedRecords`; makes the records stream.

    Raises:
      UserError: if a pattern matches no file, or what is asked for needs an index, and there is
        none.
    """
    served = passes.training and feeding.data_service is not None
    if served and files:  # Its workers are TensorFlow's, which call no Python.
        check_known_to_tensorflow(files[0], "with feeding.data_service, the data set")
    paths = match_files(files)
    streams = feeding.source == "streaming" or keep is not None or served
    index = None if streams else find_index(paths)
    if index is not None:
        return IndexedRecords(index, view, feeding, passes, columns)
    if feeding.source == "indexed" or feeding.index_options():
        needing = feeding.index_options() or ["source=indexed"]
        raise UserError(
            f"feeding.{', '.join(needing)} needs shards with an index on a local disk, but "
            f"{paths[0]} has none beside its Split folder; ingest again, or stream without it."
        )
    _LOG.info("Streaming %d shards through a shuffle window: %s.", len(paths), _why(feeding, keep))
    return StreamedRecords(paths, view, feeding, passes, columns, keep)


def find_columns(
    files: Sequence[str], feeding: FeedingOptions, others: Sequence[record.Column] = ()
) -> tuple[record.Column, ...]:
    """The columns that are read beside the images: masks, boxes, what is fed, others; each once.

    Raises:
      UserError: if a data set lacks one, or has it of another type.
    """
    moved = {None: (), "masks": (record.MASK_COLUMN,), "boxes": boxes.COLUMNS}[find_moved(files)]
    fed = _find_fed(files, feeding)
    if labels := [column.key for column in fed if column in moved]:
        raise UserError(
            f"feeding.columns names {labels[0]!r}, of which the labels are made; leave it out."
        )
    return tuple(dict.fromkeys([*fed, *moved, *others]))


def _find_fed(files: Sequence[str], feeding: FeedingOptions) -> tuple[record.Column, ...]:
    if not feeding.columns:
        return ()
    found = {
        root: choose_columns("feeding.columns", feeding.columns, read_manifest(root).further, True)
        for root, _ in group_by_root(match_files(files))
    }
    if len(set(found.values())) > 1:
        raise UserError(
            f"feeding.columns must be of one type in all data sets, got {found}; give "
            "ingest.column_types, and ingest again."
        )
    return _check_lists(next(iter(found.values())), feeding)


def _check_lists(
    columns: tuple[record.Column, ...], feeding: FeedingOptions
) -> tuple[record.Column, ...]:
    """The columns; raises UserError if lists are among them, and cannot be fed."""
    lists = [column.key for column in columns if column.is_list]
    if lists and feeding.data_service is not None:
        raise UserError(
            f"feeding.data_service passes records on one by one, but the column {lists[0]!r} is a "
            "list, which is as long as the longest of its batch; leave out one of them."
        )
    if taken := {name_length(key) for key in lists}.intersection(feeding.columns):
        raise UserError(
            f"feeding.columns names {min(taken)!r}, which is what the lengths of a list are "
            "called; rename that column by ingest.columns, and ingest again."
        )
    return columns


def find_label(files: Sequence[str]) -> tuple[record.Column, ...]:
    """The column of tags or values that the data sets have; none of classes, or other records."""
    labels = set(_labels_of(files).values())
    if len(labels) > 1:
        raise UserError(
            "data sets that are read together must have labels of one kind, but some have classes, "
            "others tags or values; read them apart, or set ingest.column_types.label."
        )
    return tuple(label for label in labels if label is not None)


def check_label(files: Sequence[str], label: record.Column | None) -> None:
    """Checks that data sets have the labels that a transform graph makes ids of.

    Raises:
      UserError: if one has others: all of its images would be fed as if they had none.
    """
    for root, own in _labels_of(files).items():
        if own != label:
            raise UserError(
                f"the transform graph is of {_name_kind(label)}, but the labels of {root!r} are "
                f"{_name_kind(own)}; give the graph of that data set's own analysis."
            )


def _name_kind(label: record.Column | None) -> str:
    kinds = {record.TAGS: "tags", record.VALUE: "values"}
    return "classes" if label is None else kinds[label.key]


def _labels_of(files: Sequence[str]) -> dict[str, record.Column | None]:
    """The kind of labels of each data set that has a manifest: None for classes."""
    return {root: manifest.label for root, manifest in _read_manifests(files).items()}


def find_moved(files: Sequence[str]) -> Moved | None:
    """Whether the images of shards have masks or boxes, as the manifests of their data sets say.

    Raises:
      UserError: if only some have, or boxes of other classes.
    """
    manifests = _read_manifests(files)
    if not manifests:
        return _find_in_first_record(match_files(files))
    found = {root: _moved_of(manifest) for root, manifest in manifests.items()}
    if len(set(found.values())) > 1:
        said = ", ".join(f"{root} has {kind or 'neither'}" for root, kind in found.items())
        raise UserError(
            "data sets that are read together must all have masks, or boxes, or none of them, but "
            f"{said}; read them apart."
        )
    if len(classes := {manifest.box_classes for manifest in manifests.values()}) > 1:
        raise UserError(
            "data sets that are read together must have boxes of the same classes, got "
            f"{' and '.join(map(str, classes))}; give ingest.boxes.classes, and ingest again."
        )
    return next(iter(found.values()))


def find_most_boxes(files: Sequence[str]) -> int | None:
    """The most boxes that an image of the data sets has, at least 1; None if no manifest tells."""
    manifests = _read_manifests(files)
    return max((1, *(each.most_boxes for each in manifests.values()))) if manifests else None


def _moved_of(manifest: Manifest) -> Moved | None:
    return "masks" if manifest.has_masks else "boxes" if manifest.has_boxes else None


def _read_manifests(files: Sequence[str]) -> dict[str, Manifest]:
    """The manifests of the data sets that shards are of, by their folders."""
    bare = [path.removesuffix(".gz") for path in match_files(files)]
    roots = [root for root, _ in group_by_root(bare)] if all(map(match_path, bare)) else []
    return {root: read_manifest(root) for root in roots if has_manifest(root)}


def _find_in_first_record(paths: Sequence[str]) -> Moved | None:
    """Whether the first record has a mask or boxes: what files without a manifest say."""
    records = tf.data.Dataset.from_tensor_slices(paths).flat_map(find_reader(paths))
    for serialized in records.take(1).as_numpy_iterator():
        try:
            features = tf.train.Example.FromString(serialized).features.feature
        except DecodeError:
            return None  # Whoever reads it says so.
        if record.MASK in features:
            return "masks"
        return "boxes" if record.BOX_LABEL.key in features else None
    return None


def _why(feeding: FeedingOptions, keep: Callable[[tf.Tensor], tf.Tensor] | None) -> str:
    """Why records stream, in words."""
    if feeding.data_service is not None:
        return "feeding.data_service is set"
    if feeding.source == "streaming" or keep is not None:
        return "feeding.source=streaming"
    return "there is no index beside them on a local disk"
