"""Some records on their way to the model: as stored, as evaluated, as trained on epoch by epoch."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.augment import apply
from image_pipeline.components.augment.mix import partner_of
from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.stored import IMAGE_KEYS, take_image
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.finishing import make_augment, take_views
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import SEPARATOR
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import KEY, MIRRORED
from image_pipeline.components.feeding.records import (
    find_label_kind,
    match_files,
    open_records,
    read_manifests,
)
from image_pipeline.components.labels import box_batches
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, MASKS
from image_pipeline.components.names import decode_name
from image_pipeline.components.views.fast_decode import decode_image, decode_mask
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.show.overlays import NamedBoxes, make_colors
from image_pipeline.show.words import count_names, format_fact


@dataclasses.dataclass(frozen=True)
class RecordViews:
    """One record on its way to the model.

    Attributes:
      label: the class's name, the tags, the value, or the names of boxes.
      names: its class, its tags, or the classes of its boxes, each once; none of a value.
      path: the source that the record was made of.
      stored: uint8 [height, width, channels], as ingest stored it.
      eval: uint8 [height_px, width_px, channels], what evaluation and serving see.
      train: uint8 [epochs, height_px, width_px, channels], what training sees, epoch by epoch.
      shares: for each epoch, the classes of the training view with their shares: one class with the
        share 1, unless images are mixed.
      model_input: float32 [height_px, width_px, channels], the eval view after the transform graph;
        None without one.
      masks: of `stored`, `eval` and `train`, uint8 [..., height, width, 1]; None without masks.
      mask_colors: uint8 [256, 3], of the masks' ids.
      boxes: of `stored`, `eval` and each of `train`, as the model gets them: without crowds and
        what is not visible enough, which the stored image shows; None without boxes.
    """

    label: str
    names: tuple[str, ...]
    path: str
    stored: np.ndarray
    eval: np.ndarray
    train: np.ndarray
    shares: tuple[dict[str, float], ...]
    model_input: np.ndarray | None = None
    masks: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    mask_colors: np.ndarray | None = None
    boxes: tuple[NamedBoxes, ...] | None = None


def read_views(
    files: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    transform_graph_dir: str | None = None,
    records: int = 4,
    epochs: int = 4,
    seed: int = 0,
) -> list[RecordViews]:
    """Makes the views that training, evaluation and the model get of records of many classes.

    They have exactly the pixels of `input_fn`, for a record's first draw in an epoch and its first
    view (`feeding.many_views`). Only mixing steps find other partners: the records shown are one
    batch.

    Args:
      files: TFRecord paths or patterns.
      view: the model's input size.
      feeding: the random steps.
      transform_graph_dir: the folder of the transform graph; None leaves out the model's input.
      records: how many records to look at (fewer, if there are fewer).
      epochs: how many epochs of training views to make, from epoch 0 on.
      seed: the seed of training.

    Returns:
      Each record's views, see `choose_spread` for their order.

    Raises:
      UserError: if there is no record, one is damaged, or a user's step cannot be used.
    """
    paths = match_files(files)
    # Mixing steps pair records: the last of an odd number would not be mixed.
    count = records + records % 2 if feeding.mixes_labels else records
    index = open_records(paths, None, FeedingOptions(), Passes(mode="eval")).index
    rows = choose_spread(index.column("label"), count)
    return view_rows(paths, rows, view, feeding, transform_graph_dir, epochs, seed)[:records]


def view_rows(
    paths: list[str],
    rows: np.ndarray,
    view: ViewOptions,
    feeding: FeedingOptions,
    transform_graph_dir: str | None = None,
    epochs: int = 4,
    seed: int = 0,
) -> list[RecordViews]:
    """Makes the views of given records; see `read_views`.

    Args:
      paths: shards that they are in.
      rows: int64 [records], of these shards' index.
      view: as `read_views` takes it, as are those that follow.
    """
    kind = find_label_kind(paths)
    apply.check_user_steps(feeding.steps, next(iter(kind.moves), None))
    # The records have been chosen, so the options that choose and order them do not apply.
    size = len(rows) + len(rows) % 2
    own = FeedingOptions(batch_size=size, hold_decoded=False, augment=feeding.augment)

    def read(passes: Passes) -> Any:
        return ImageBatches(paths, view, own, passes, kind.columns, rows).read()

    reader = open_records(paths, view, own, Passes(mode="eval"))
    stored = StoredViews(paths, reader.read_serialized(rows), kind)
    # Each pass over the records is one batch: its views, and what its records have beside them.
    (batch,) = read(Passes(mode="eval"))
    evals = take_views(batch, kind)
    seen: list[Any] = [(evals, batch)]
    try:
        augment = make_augment(feeding, view, kind)
        trained = read(Passes(mode="train", seed=seed, epochs=epochs))
        seen += trained.map(
            lambda batch: (augment(take_views(batch, kind), batch[KEY], batch[MIRRORED]), batch)
        )
    except Exception as error:  # A function that the user wrote may raise anything.
        users = [step.op for step in feeding.steps if isinstance(step, UserStep)]
        if isinstance(error, UserError) or not users:
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UserError(
            f"the steps of feeding.augment must work on a batch, but with {', '.join(users)} "
            f"there was {type(error).__name__}: {lines[-1] if lines else ''}"
        ) from error
    images = np.stack([views.images for views, _ in seen])  # [1 + epochs, records, ...]
    masks = np.stack([views.masks for views, _ in seen]) if kind is MASKS else None
    boxes = None
    if kind is BOXES:
        kept = (kind.truth(batch, views, feeding.min_visible) for views, batch in seen)
        boxes = [stored.name_fed_boxes(each) for each in kept]
    shares = [_name_shares(stored.labels, views.own_share) for views, _ in seen[1:]]
    inputs = None
    if transform_graph_dir is not None:
        inputs = TransformGraph(transform_graph_dir).transform_images(evals.images).numpy()
    return [
        RecordViews(
            label=label,
            names=stored.names[n],
            path=stored.paths[n],
            stored=stored.decode(n),
            eval=images[0, n],
            train=images[1:, n],
            shares=tuple(own[n] for own in shares),
            model_input=None if inputs is None else inputs[n],
            masks=None if masks is None else (stored.decode_mask(n), masks[0, n], masks[1:, n]),
            mask_colors=stored.mask_colors,
            boxes=None if boxes is None else (stored.read_boxes(n), *(own[n] for own in boxes)),
        )
        for n, label in enumerate(stored.labels)
    ]


def _name_shares(labels: Sequence[str], own_share: Any) -> list[dict[str, float]]:
    """The classes' shares in each view, from float32 [records], see `Batch`, or None."""
    own = np.ones(len(labels)) if own_share is None else own_share.numpy()
    partners = partner_of(np.arange(len(labels))).numpy().tolist()
    named = []
    for one, other, share in zip(labels, partners, own.tolist(), strict=True):
        parts = {labels[other]: 1 - share} if share < 1 else {}
        named.append({one: parts.pop(one, 0) + share, **parts})
    return named


def choose_spread(classes: np.ndarray, count: int) -> np.ndarray:
    """Chooses records spread over the classes.

    Args:
      classes: int [records], each one's class number.
      count: how many to choose.

    Returns:
      int64 [up to count], places in `classes`: the first record of each class, then the second of
      each, and so on; with more classes than `count`, evenly spaced ones.
    """
    order = np.argsort(classes, kind="stable")
    by_class = classes[order]
    turn = np.arange(len(order)) - np.searchsorted(by_class, by_class)
    firsts = order[turn == 0]
    if len(firsts) > count:
        return firsts[np.arange(count) * len(firsts) // count]
    return order[np.lexsort((by_class, turn))][:count]


class StoredViews:
    """Some records as they are stored: their images and annotations.

    Attributes:
      kind: of their labels.
      labels: each image's class, tags, value, or boxes, as text.
      names: its class, its tags, or the classes of its boxes, each once; none of a value.
      paths: the sources that they were made of.
      mask_colors: uint8 [256, 3], of masks' ids; None without masks.
    """

    def __init__(self, paths: list[str], chosen: np.ndarray, kind: LabelKind):
        self.kind = kind
        manifest = next(iter(read_manifests(paths).values()), None)
        self._class_names = BOXES.class_names(manifest) if kind is BOXES and manifest else ()
        options = None if manifest is None else manifest.options.get("masks")
        self.mask_colors = make_colors(options) if kind is MASKS else None
        label = None if manifest is None else manifest.label
        further = [record.Column(record.FILENAME, "bytes"), *([] if label is None else [label])]
        columns = [*parse.IMAGE_COLUMNS, parse.LABEL_COLUMN, *kind.columns, *further]
        parsed = parse.parse_batch(chosen, columns)
        self._features = {key: values.numpy() for key, values in parsed.items()}
        named = [self._name_label(number, label) for number in range(len(chosen))]
        self.labels, self.names = [text for text, _ in named], [names for _, names in named]
        self.paths = [decode_name(each) for each in self._features[record.FILENAME].tolist()]

    def decode(self, number: int) -> np.ndarray:
        """One of the images: uint8 [height, width, channels]."""
        image = fetch(take_image({key: self._features[key][number] for key in IMAGE_KEYS}))
        return decode_image(image, image.channels)

    def decode_mask(self, number: int) -> np.ndarray:
        """The mask of one of the images: uint8 [height, width, 1]."""
        keys = (record.MASK, record.HEIGHT, record.WIDTH)
        mask, height, width = (self._features[key][number] for key in keys)
        return decode_mask(mask, (int(height), int(width)))

    def read_boxes(self, number: int) -> NamedBoxes:
        """The boxes of one of the images, with its crowds."""
        *sides, ids, crowds = (self._features[each.key][number] for each in BOXES.columns)
        kept = ids > 0  # The others pad the list.
        names = [self._name_class(id_ - 1) for id_ in ids[kept].tolist()]
        sides = [each[kept] for each in sides]
        return NamedBoxes.of_record(sides, ids[kept].tolist(), names, crowds[kept])

    def name_fed_boxes(self, truth: Mapping[str, Any]) -> list[NamedBoxes]:
        """The boxes of all images, as the model gets them in a batch."""
        fed = (
            truth[key].numpy()
            for key in (box_batches.PLACES, box_batches.LABELS, box_batches.COUNT)
        )
        return [
            NamedBoxes(places[:count], tuple(kept), tuple(map(self._name_class, kept)))
            for places, ids, count in zip(*fed, strict=True)
            for kept in [ids[:count].tolist()]
        ]

    def _name_class(self, id_: int) -> str:
        """The class of a box's id, from 0 on; the id where a data set has no names."""
        return self._class_names[id_] if id_ < len(self._class_names) else str(id_)

    def _name_label(self, number: int, label: record.Column | None) -> tuple[str, tuple[str, ...]]:
        """A record's label as text, and its names."""
        if self.kind is BOXES:
            boxes = self.read_boxes(number)
            classes = {self._name_class(id_) for id_ in boxes.ids}
            return count_names(boxes.names) or "no box", tuple(sorted(classes))
        cell = self._features[record.LABEL if label is None else label.key][number]
        if label is None:
            return (name := cell.decode(errors="replace")), (name,)
        if label.is_list:
            tags = cell.decode(errors="replace").split(SEPARATOR)
            return ", ".join(tags) or "no tag", tuple(sorted({*tags} - {""}))
        return format_fact(float(cell)), ()
