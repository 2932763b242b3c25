"""Some records on their way to the model: as stored, as evaluated, as trained on epoch by epoch."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components.augment import apply
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.augment.partner import partner_of
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import find_index
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.finishing import make_augment, take_views
from image_pipeline.components.feeding.found_columns import find_labels
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.keys import KEY, MIRRORED
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.shard_files import find_reader, match_files
from image_pipeline.components.labels import box_batches as boxes
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.preview.stored_views import StoredViews
from image_pipeline.show.box_overlay import NamedBoxes

# Where there is no index, this many records are read to choose from.
_MOST_READ = 1000


@dataclasses.dataclass(frozen=True)
class RecordViews:
    """One record on its way to the model.

    Attributes:
      label: the class's name, the tags, the value, or the names of boxes.
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
    chosen = _read_spread(paths, records + records % 2 if feeding.mixes_labels else records)
    return view_records(paths, chosen, view, feeding, transform_graph_dir, epochs, seed)[:records]


def view_records(
    paths: list[str],
    chosen: np.ndarray,
    view: ViewOptions,
    feeding: FeedingOptions,
    transform_graph_dir: str | None = None,
    epochs: int = 4,
    seed: int = 0,
) -> list[RecordViews]:
    """Makes the views of given records; see `read_views`.

    Args:
      paths: of the shards that they are from.
      chosen: object [records], serialized records.
      view: as `read_views` takes it, as are those that follow.
    """
    kind = find_labels(paths)
    apply.check_user_steps(feeding.steps, next(iter(kind.moves), None))
    stored = StoredViews(paths, chosen, kind)
    reader = _Reader(paths, view, feeding, stored)
    evals = reader.read_eval()
    trained = reader.read_train(seed, epochs)
    transform = None if transform_graph_dir is None else TransformGraph(transform_graph_dir)
    shown = evals.images
    inputs = [None] * len(shown) if transform is None else transform.transform_images(shown).numpy()
    return [
        RecordViews(
            label=stored.labels[number],
            stored=stored.decode(number),
            eval=shown[number],
            train=np.stack([own.images[number] for own in trained]),
            shares=tuple(own.shares[number] for own in trained),
            model_input=inputs[number],
            masks=_gather_masks(number, stored, evals, trained),
            mask_colors=stored.mask_colors,
            boxes=_gather_boxes(number, stored, evals, trained),
        )
        for number in range(len(shown))
    ]


def _gather_masks(
    number: int, stored: StoredViews, evals: "_Views", trained: "Sequence[_Views]"
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """A record's mask as it is stored, in evaluation and in each epoch; None without masks."""
    if evals.masks is None:
        return None
    epochs = np.stack([own.masks[number] for own in trained if own.masks is not None])
    return stored.decode_mask(number), evals.masks[number], epochs


def _gather_boxes(
    number: int, stored: StoredViews, evals: "_Views", trained: "Sequence[_Views]"
) -> tuple[NamedBoxes, ...] | None:
    """A record's boxes as they are stored, in evaluation and in each epoch; None without boxes."""
    if evals.boxes is None:
        return None
    views = (own.boxes[number] for own in (evals, *trained) if own.boxes is not None)
    return stored.read_boxes(number), *views


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


def _read_spread(paths: list[str], count: int) -> np.ndarray:
    """Reads serialized records of many classes: object [up to count]."""
    index = find_index(paths)
    if index is not None:
        stored = StoredRecords(index)
        chosen = [stored.read(row, verify=True) for row in choose_spread(index.label, count)]
    else:
        shards = itertools.chain.from_iterable(map(find_reader(paths), paths))
        read = np.array([each.numpy() for each in itertools.islice(shards, _MOST_READ)], object)
        labels = parse.parse_batch(read, [parse.LABEL_COLUMN])[record.LABEL].numpy()
        chosen = read[choose_spread(np.unique(labels, return_inverse=True)[1], count)]
    if not len(chosen):
        raise UserError(f"there must be a record to look at, but {paths} hold none; add images.")
    return np.array(chosen, object)


@dataclasses.dataclass(frozen=True)
class _Views:
    """The views of the chosen records in one epoch, with what moves with them.

    Attributes:
      images: uint8 [records, height, width, channels].
      shares: of each record, the classes of its view with their shares.
      masks: uint8 [records, height, width, 1], or None.
      boxes: of each record, or None.
    """

    images: np.ndarray
    shares: list[dict[str, float]]
    masks: np.ndarray | None
    boxes: list[NamedBoxes] | None


class _Reader:
    """Views the same records repeatedly."""

    def __init__(
        self, paths: list[str], view: ViewOptions, feeding: FeedingOptions, stored: StoredViews
    ):
        count = len(stored.labels)
        self._paths, self._view, self._feeding, self._stored = paths, view, feeding, stored
        # The records have been chosen, so the options that choose and order them do not apply.
        self._own = FeedingOptions(
            batch_size=count + count % 2, source="streaming", augment=feeding.augment
        )

    def read_eval(self) -> _Views:
        """The deterministic views."""
        (batch,) = self._make_epochs(Passes(mode="eval"))
        return self._finish(take_views(batch, self._stored.kind), batch)

    def read_train(self, seed: int, epochs: int) -> list[_Views]:
        """The random views of each epoch."""
        try:
            augment = make_augment(self._feeding, self._view, self._stored.kind)
            batches = self._make_epochs(Passes(mode="train", seed=seed, epochs=epochs)).map(
                lambda batch: (
                    augment(take_views(batch, self._stored.kind), batch[KEY], batch[MIRRORED]),
                    batch,
                )
            )
            return [self._finish(views, batch) for views, batch in batches]
        except UserError:
            raise
        except Exception as error:
            raise self._explain(error) from error

    def _make_epochs(self, passes: Passes) -> Any:
        """A data set of one batch per epoch, made by tf.data as in training."""
        stored = self._stored
        reader = ImageBatches(self._paths, self._view, self._own, passes, stored.kind.columns)
        return reader.view_chosen(stored.serialized)

    def _finish(self, views: Batch, batch: Mapping[str, Any]) -> _Views:
        return _Views(
            views.images.numpy(),
            self._name_shares(views.own_share),
            None if views.masks is None else views.masks.numpy(),
            None if views.boxes is None else self._name_boxes(views, batch),
        )

    def _name_boxes(self, views: Batch, batch: Mapping[str, Any]) -> list[NamedBoxes]:
        """The boxes that the model gets."""
        kept = self._stored.kind.truth(batch, views, self._feeding.min_visible)
        places, ids, counts = (
            kept[key].numpy() for key in (boxes.PLACES, boxes.LABELS, boxes.COUNT)
        )
        return [
            self._stored.name_boxes(places[number, :count], ids[number, :count].tolist())
            for number, count in enumerate(counts.tolist())
        ]

    def _name_shares(self, own_share: Any) -> list[dict[str, float]]:
        """The classes' shares in each view, from float32 [records], see `Batch`, or None."""
        labels = self._stored.labels
        own = np.ones(len(labels)) if own_share is None else own_share.numpy()
        partners = partner_of(np.arange(len(labels))).numpy().tolist()
        named = []
        for one, other, share in zip(labels, partners, own.tolist(), strict=True):
            parts = {labels[other]: 1 - share} if share < 1 else {}
            named.append({one: parts.pop(one, 0) + share, **parts})
        return named

    def _explain(self, error: Exception) -> Exception:
        """The error, explained if it probably comes from a function that the user wrote."""
        steps = [step.op for step in self._feeding.steps if isinstance(step, UserStep)]
        if not steps:
            return error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return UserError(
            f"the steps of feeding.augment must work on a batch, but with {', '.join(steps)} "
            f"there was {type(error).__name__}: {lines[-1] if lines else ''}"
        )
