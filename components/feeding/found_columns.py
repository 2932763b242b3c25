"""What of each record is read, as the manifests of data sets say: labels, masks, boxes, columns."""

import contextlib
from collections.abc import Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.columns import choose_columns
from image_pipeline.components.dataset.manifest import Manifest, read_manifest
from image_pipeline.components.dataset.paths import group_by_root, match_path
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import name_length
from image_pipeline.components.feeding.shard_files import find_reader, match_files
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS, find_kind


def find_columns(
    files: Sequence[str], feeding: FeedingOptions, others: Sequence[record.Column] = ()
) -> tuple[record.Column, ...]:
    """The columns that are read beside the images: of labels, what is fed, others; each once.

    Raises:
      UserError: if a data set lacks one, or has it of another type.
    """
    labels = find_labels(files).columns
    fed = _find_fed(files, feeding)
    if of_labels := [column.key for column in fed if column in labels]:
        raise UserError(
            f"feeding.columns names {of_labels[0]!r}, of which the labels are made; leave it out."
        )
    return tuple(dict.fromkeys([*fed, *labels, *others]))


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


def find_labels(files: Sequence[str]) -> LabelKind:
    """The kind of labels of shards, as the manifests of their data sets say.

    Raises:
      UserError: if they have several kinds, or boxes of different classes.
    """
    manifests = read_manifests(files)
    if not manifests:
        return _find_in_first_record(match_files(files))
    if len({manifest.label for manifest in manifests.values()}) > 1:
        raise UserError(
            "data sets that are read together must have labels of one kind, but some have classes, "
            "others tags or values; read them apart, or set ingest.column_types.label."
        )
    found = {root: find_kind(manifest.columns) for root, manifest in manifests.items()}
    kinds = set(found.values())
    if len(kinds) > 1:
        named = {root: kind.name if kind.moves else "neither" for root, kind in found.items()}
        named_columns = ", ".join(f"{root} has {name}" for root, name in named.items())
        raise UserError(
            "data sets that are read together must all have masks, or boxes, or none of them, but "
            f"{named_columns}; read them apart."
        )
    if kinds == {BOXES} and len(classes := {*map(BOXES.class_names, manifests.values())}) > 1:
        raise UserError(
            "data sets that are read together must have boxes of the same classes, got "
            f"{' and '.join(map(str, classes))}; give ingest.boxes.classes, and ingest again."
        )
    return kinds.pop()


def find_most_boxes(files: Sequence[str]) -> int | None:
    """The most boxes that an image of the data sets has, at least 1; None if no manifest tells."""
    splits = [s for manifest in read_manifests(files).values() for s in manifest.splits.values()]
    return max((1, *(split.most_boxes or 0 for split in splits))) if splits else None


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


def _find_in_first_record(paths: Sequence[str]) -> LabelKind:
    """By whether the first record has a mask or boxes: what files without a manifest say."""
    records = tf.data.Dataset.from_tensor_slices(paths).flat_map(find_reader(paths))
    for serialized in records.take(1).as_numpy_iterator():
        try:
            features = tf.train.Example.FromString(serialized).features.feature
        except DecodeError:
            return CLASSES  # Whoever reads it says so.
        if record.MASK in features:
            return MASKS
        return BOXES if record.BOX_LABEL.key in features else CLASSES
    return CLASSES
