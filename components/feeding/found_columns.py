"""What of each record is read, as the manifests of data sets say: labels, masks, boxes, columns."""

from collections.abc import Mapping, Sequence

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.record import choose_columns
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, find_kind

Manifests = Mapping[str, Manifest]
"""Those of the data sets that are read together, by their folders."""


def find_columns(
    manifests: Manifests,
    kind: LabelKind,
    feeding: FeedingOptions,
    others: Sequence[record.Column] = (),
) -> tuple[record.Column, ...]:
    """The columns that are read beside the images: of labels, what is fed, others; each once.

    Raises:
      UserError: if a data set lacks one, or has it of another type.
    """
    labels, fed = kind.columns, _find_fed(manifests, feeding)
    if of_labels := [column.key for column in fed if column in labels]:
        raise UserError(
            f"feeding.columns names {of_labels[0]!r}, of which the labels are made; leave it out."
        )
    return tuple(dict.fromkeys([*fed, *labels, *others]))


def name_length(key: str) -> str:
    """What a batch calls the lengths of a list."""
    return f"{key}_length"


def _find_fed(manifests: Manifests, feeding: FeedingOptions) -> tuple[record.Column, ...]:
    if not feeding.columns:
        return ()
    found = {
        root: choose_columns("feeding.columns", feeding.columns, manifest.further, True)
        for root, manifest in manifests.items()
    }
    if not found:
        raise UserError(
            f"feeding.columns names {feeding.columns[0]!r}, but only a data set's manifest says "
            "what type a column has, and these shards have none; ingest them, or leave it out."
        )
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
    if taken := {name_length(key) for key in lists}.intersection(feeding.columns):
        raise UserError(
            f"feeding.columns names {min(taken)!r}, which is what the lengths of a list are "
            "called; rename that column by ingest.columns, and ingest again."
        )
    return columns


def find_labels(manifests: Manifests) -> LabelKind:
    """The kind of labels of at least one data set, as its manifest says.

    Raises:
      UserError: if they have several kinds, or boxes of different classes.
    """
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


def find_most_boxes(manifests: Manifests) -> int | None:
    """The most boxes that an image of the data sets has, at least 1; None if no manifest tells."""
    splits = [split for manifest in manifests.values() for split in manifest.splits.values()]
    return max((1, *(split.most_boxes or 0 for split in splits))) if splits else None
