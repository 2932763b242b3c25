"""The data sets that one analysis covers, and the graph that is to be made of them."""

import collections
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.dataset.complete import check_shard_sizes
from image_pipeline.components.dataset.index_file import index_name, scan_index
from image_pipeline.components.dataset.manifest import hash_manifest, read_whole_manifest
from image_pipeline.components.dataset.paths import MANIFEST
from image_pipeline.components.dataset.record import Column, PixelType, label_column
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.rules import check_pixels
from image_pipeline.components.function_version import code_version
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS, find_kind
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import Wanted, keep_records
from image_pipeline.components.views.options import ViewOptions

# By the options of `ingest.prepare` that are a span's attributes.
_ALIKE = {
    "alpha_background": "lay transparent images on the same colour",
    "sound": "have drawn sounds in the same way",
    "depth": "have made 8 bits of 16 between the same two values, as {low: …, high: …} says",
    "dtype": "have values of one type",  # Those of another mean another scale.
    "resize": "be distorted by resize: exact to the same square, or none of them",
}


@dataclasses.dataclass(frozen=True)
class Span:
    """The analysed part of one data set.

    Attributes:
      examples_dir: the data set's folder.
      key: a hash of all that its pixels in the analysis depend on; its name in a cache.
      manifest_sha256: of the data set's manifest, 64 hexadecimal digits.
      shards: paths of the TFRecord files.
      classes: split to class or tag to number of records, of all splits.
      analysed: class or tag to number of records that the analysis reads.
      alpha_background: RGB colour on which ingest laid transparent images.
      columns: all features of its records.
      further: those that its table had.
      records: how many the analysis reads.
      split_records: split to number of records.
      kind: of labels.
      stored_classes: the classes in the order of the ids that records have, of masks or boxes.
      counts: how many pixels of masks each id has, or boxes each class, in the analysed splits.
      dtype: the type of the stored values.
      sound: how ingest drew its sounds, as `SoundOptions` are written; None if it read none.
      depth: the values of 16 bits that became 0 and 255.
      resize: to what images were distorted, as `Square` is written; None if they were not.
      given_classes: the labels that there may be, in the order of their ids; none if not given.
    """

    examples_dir: str
    key: str
    manifest_sha256: str
    shards: tuple[str, ...]
    classes: dict[str, collections.Counter]
    analysed: collections.Counter
    alpha_background: tuple[int, int, int] = (255, 255, 255)
    columns: tuple[Column, ...] = ()
    further: tuple[Column, ...] = ()
    records: int = 0
    split_records: dict[str, int] = dataclasses.field(default_factory=dict)
    kind: LabelKind = CLASSES
    stored_classes: tuple[str, ...] = ()
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    dtype: PixelType = "uint8"
    sound: dict[str, Any] | None = None
    depth: tuple[int, int] = (0, 65_535)
    resize: dict[str, Any] | None = None
    given_classes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTask:
    """A transform graph to be made, with what its last stage says of a `preprocessing_fn`.

    Attributes:
      output_dir: where the graph and `analysis.json` are written.
      view: the model's input.
      wanted: what the analysis reads of a record.
      function_version: a hash of its source.
      is_named_by_label: whether a record's class depends on its label alone.
      first: the classes that are numbered first, as `ingest.classes` has them.
      earlier: folder of a graph that was made before, whose images need not be decoded again.
    """

    output_dir: str
    view: ViewOptions
    options: TransformOptions
    wanted: Wanted
    function_version: str
    is_named_by_label: bool
    first: tuple[str, ...] = ()
    earlier: str = ""


def read_spans(
    examples_dirs: Sequence[str], view: ViewOptions, options: TransformOptions
) -> list[Span]:
    """Reads what the data sets hold.

    Args:
      examples_dirs: folders with manifests.
      view: the model's input.

    Raises:
      UserError: if a data set is incomplete, lacks a split or is given twice, if they were made
        otherwise than each other, or if there is no record to analyse.
    """
    spans = [_read_span(folder, view, options) for folder in examples_dirs]
    for problem in _find_problems(spans, options):
        raise UserError(problem)
    return spans


def _find_problems(spans: Sequence[Span], options: TransformOptions) -> Iterator[str]:
    """What data sets must be to be analysed together, rule by rule."""
    keys = [span.key for span in spans]
    if twice := [span.examples_dir for span in spans if keys.count(span.key) > 1]:
        yield f"the same data set is given more than once: {twice}; give it once."
    for option, rule in _ALIKE.items():  # A served model has to do what ingest did to all.
        made = {span.examples_dir: getattr(span, option) for span in spans}
        if any(value != getattr(spans[0], option) for value in made.values()):
            yield (
                f"data sets that are analysed together must {rule}, got ingest.prepare.{option} "
                f"{made}; ingest some of them again."
            )
    for kind in (MASKS, BOXES):  # By the places of classes in their list models know them.
        listed = {s.examples_dir: s.stored_classes if s.kind is kind else None for s in spans}
        if len(set(listed.values())) > 1:
            yield (
                f"data sets that are analysed together must have {kind.name} of the same classes, "
                f"got {listed}; give ingest.{kind.name}.classes, and ingest again."
            )
    if not any(span.records for span in spans):
        yield (
            f"the analysis needs a record, but {[span.examples_dir for span in spans]} have none "
            f"in the splits {list(options.analyze_splits)} at transform.analyze_fraction "
            f"{options.analyze_fraction}; add images, or raise the fraction."
        )
    label = label_column(spans[0].further)
    if label is not None and label.is_list and not any(span.analysed for span in spans):
        yield (
            f"the analysis needs a tag, but none of the records in the splits "
            f"{list(options.analyze_splits)} has any; add images with tags, or move some there."
        )


def _read_span(examples_dir: str, view: ViewOptions, options: TransformOptions) -> Span:
    manifest = read_whole_manifest(examples_dir)
    check_pixels({examples_dir: manifest}, view)
    splits, label = options.analyze_splits, manifest.label
    if missing := [split for split in splits if split not in manifest.splits]:
        raise UserError(
            f"transform.analyze_splits names {missing}, but the data set has "
            f"{list(manifest.splits)}; name one of those, or add it to ingest.splits."
        )
    check_shard_sizes(examples_dir, manifest, splits)

    def list_names(labels: np.ndarray) -> Iterable[str]:
        """The names among labels: classes, or all tags; values are none."""
        if label is None:
            return labels
        return itertools.chain.from_iterable(labels) if label.is_list else ()

    classes: dict[str, collections.Counter] = {
        split: collections.Counter() for split in manifest.splits
    }
    analysed: collections.Counter = collections.Counter()
    records, split_records = 0, collections.Counter(dict.fromkeys(manifest.splits, 0))
    for split, labels, ids in read_index_rows(examples_dir, label):
        classes[split].update(list_names(labels))
        split_records[split] += len(ids)
        if split in splits:
            is_read = keep_records(tf.constant(ids), options.analyze_fraction).numpy()
            analysed.update(list_names(labels[is_read]))
            records += int(is_read.sum())
    kind = find_kind(manifest.columns)
    return Span(
        examples_dir=examples_dir,
        key=span_key(examples_dir, view, options),
        manifest_sha256=hash_manifest(examples_dir),
        shards=tuple(
            files.join(examples_dir, shard.file)
            for split in splits
            for shard in manifest.splits[split].shards
            if shard.records
        ),
        classes=classes,
        analysed=analysed,
        alpha_background=manifest.alpha_background,
        columns=manifest.columns,
        further=manifest.further,
        records=records,
        split_records=dict(split_records),
        kind=kind,
        stored_classes=kind.class_names(manifest),
        counts=kind.counts(manifest, splits),
        dtype=manifest.dtype,
        sound=manifest.options.get("prepare", {}).get("sound"),
        depth=manifest.depth,
        resize=None if manifest.square is None else manifest.square.model_dump(),
        given_classes=manifest.given_classes,
    )


def read_index_rows(
    examples_dir: str, label: Column | None = None
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Reads the index: each split's labels and record ids (both object [n]), some at a time."""
    name = "label" if label is None else index_name(label)
    for rows in scan_index(examples_dir, ["split", name, "record_id"]):
        for split, own in rows.to_pandas().groupby("split"):
            yield split, own[name].to_numpy(), own["record_id"].to_numpy()


def span_key(examples_dir: str, view: ViewOptions, options: TransformOptions) -> str:
    """Hashes what a data set's batches depend on: its content, the view, the choice, the code.

    What the analyzers compute is not part of it: tf.Transform's cache knows them by their graph.
    """
    with files.open_input(files.join(examples_dir, MANIFEST)) as file:
        manifest = file.read()
    choice = options.model_dump(
        mode="json", include={"columns", "analyze_splits", "analyze_fraction"}
    )
    rest = [view.model_dump(mode="json"), choice, code_version("feeding", "order", "transform")]
    digest = hashlib.sha256(manifest + json.dumps(rest, sort_keys=True).encode())
    return f"span-{digest.hexdigest()[:32]}"
