"""What of each record is read, as the manifests of data sets say: labels, masks, boxes, columns."""

import contextlib
from collections.abc import Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from image_pipeline.components.augment.batch import Moved
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.columns import choose_columns
from image_pipeline.components.dataset.manifest import Manifest, read_manifest
from image_pipeline.components.dataset.paths import group_by_root, match_path
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import boxes
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import name_length
from image_pipeline.components.feeding.shard_files import find_reader, match_files


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


def _labels_of(files: Sequence[str]) -> dict[str, record.Column | None]:
    """The kind of labels of each data set that has a manifest: None for classes."""
    return {root: manifest.label for root, manifest in read_manifests(files).items()}


def find_moved(files: Sequence[str]) -> Moved | None:
    """Whether the images of shards have masks or boxes, as the manifests of their data sets say.

    Raises:
      UserError: if only some have, or boxes of other classes.
    """
    manifests = read_manifests(files)
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


def moved_in(columns: Sequence[record.Column]) -> Moved | None:
    """What of these columns moves with the images."""
    if record.MASK_COLUMN in columns:
        return "masks"
    return "boxes" if set(boxes.COLUMNS) <= set(columns) else None


def find_most_boxes(files: Sequence[str]) -> int | None:
    """The most boxes that an image of the data sets has, at least 1; None if no manifest tells."""
    manifests = read_manifests(files)
    return max((1, *(each.most_boxes for each in manifests.values()))) if manifests else None


def _moved_of(manifest: Manifest) -> Moved | None:
    return "masks" if manifest.has_masks else "boxes" if manifest.has_boxes else None


def read_manifests(files: Sequence[str]) -> dict[str, Manifest]:
    """The manifests of the data sets that shards are of, by their folders."""
    bare = [path.removesuffix(".gz") for path in match_files(files)]
    roots = [root for root, _ in group_by_root(bare)] if all(map(match_path, bare)) else []
    found = {}
    for root in roots:
        # Asked for at once: in a store, whether there is one would be a request of its own.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found[root] = read_manifest(root)
    return found


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
