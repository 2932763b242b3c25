"""Some records on their way to the model: as stored, as evaluated, as trained on epoch by epoch."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components import contract
from image_pipeline.components.augment import apply
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.augment.partner import partner_of
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import find_index
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import group_by_root
from image_pipeline.components.dataset.stored import IMAGE_KEYS, StoredRecords, take_image
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.finishing import make_augment
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.keys import KEY, MIRRORED
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.records import find_moved
from image_pipeline.components.feeding.shard_files import find_reader, match_files
from image_pipeline.components.views.fast import decode_image, decode_mask
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.show.mask_overlay import make_colors

# Where there is no index, this many records are read to choose from.
_MOST_READ = 1000


@dataclasses.dataclass(frozen=True)
class RecordViews:
    """One record on its way to the model.

    Attributes:
      label: the class's name.
      stored: uint8 [height, width, channels], as ingest stored it.
      eval: uint8 [height_px, width_px, channels], what evaluation and serving see.
      train: uint8 [epochs, height_px, width_px, channels], what training sees, epoch by epoch.
      shares: for each epoch, the classes of the training view with their shares: one class with the
        share 1, unless images are mixed.
      model_input: float32 [height_px, width_px, channels], the eval view after the transform graph;
        None without one.
      masks: of `stored`, `eval` and `train`, uint8 [..., height, width, 1]; None without masks.
      mask_colors: uint8 [256, 3], of the masks' ids.
    """

    label: str
    stored: np.ndarray
    eval: np.ndarray
    train: np.ndarray
    shares: tuple[dict[str, float], ...]
    model_input: np.ndarray | None = None
    masks: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    mask_colors: np.ndarray | None = None


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
    moved = find_moved(paths)
    has_masks = moved == "masks"
    apply.check_user_steps(feeding.augment, moved)
    # Mixing steps pair records: the last of an odd number would not be mixed.
    chosen = _read_spread(paths, records + records % 2 if feeding.mixes_labels else records)
    columns = [record.MASK_COLUMN] if has_masks else []
    drawn = parse.as_drawn(parse.parse_batch(chosen, parse.columns_to_parse(columns)))
    reader = _Reader(paths, view, feeding, drawn, columns)
    evals, eval_masks = reader.read_eval()
    trained = reader.read_train(seed, epochs)
    colors = make_colors(_read_mask_options(paths)) if has_masks else None
    transform = None if transform_graph_dir is None else TransformGraph(transform_graph_dir)
    inputs = [None] * len(evals) if transform is None else transform.transform_images(evals).numpy()
    return [
        RecordViews(
            label=drawn["label"][number].numpy().decode(errors="replace"),
            stored=_decode_stored(drawn, number),
            eval=evals[number],
            train=np.stack([images[number] for images, _, _ in trained]),
            shares=tuple(shares[number] for _, shares, _ in trained),
            model_input=inputs[number],
            masks=None
            if eval_masks is None
            else (
                _decode_stored_mask(drawn, number),
                eval_masks[number],
                np.stack([masks[number] for _, _, masks in trained if masks is not None]),
            ),
            mask_colors=colors,
        )
        for number in range(min(records, len(evals)))
    ]


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


class _Reader:
    """Views the same records repeatedly."""

    def __init__(
        self,
        paths: list[str],
        view: ViewOptions,
        feeding: FeedingOptions,
        drawn: parse.Tensors,
        columns: Sequence[record.Column],
    ):
        count = len(drawn["label"])
        self._paths, self._view, self._feeding, self._drawn = paths, view, feeding, drawn
        self._columns = columns
        # The records have been chosen, so the options that choose and order them do not apply.
        self._own = FeedingOptions(
            batch_size=count + count % 2, source="streaming", augment=feeding.augment
        )

    def read_eval(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The deterministic views: uint8 [records, height, width, channels]; and their masks."""
        (views,) = self._make_epochs(Passes(mode="eval"))
        masks = views[record.MASK].numpy() if self._columns else None
        return views[contract.IMAGE_INPUT].numpy(), masks

    def read_train(
        self, seed: int, epochs: int
    ) -> list[tuple[np.ndarray, list[dict[str, float]], np.ndarray | None]]:
        """For each epoch the random views, the classes' shares in each, and the masks."""
        try:
            augment = make_augment(self._feeding, self._view, "masks" if self._columns else None)
            views = self._make_epochs(Passes(mode="train", seed=seed, epochs=epochs)).map(
                lambda batch: augment(
                    Batch(batch[contract.IMAGE_INPUT], batch.get(record.MASK)),
                    batch[KEY],
                    batch[MIRRORED],
                )
            )
            return [
                (
                    view.images.numpy(),
                    self._name_shares(view.own_share),
                    None if view.masks is None else view.masks.numpy(),
                )
                for view in views
            ]
        except UserError:
            raise
        except Exception as error:
            raise self._explain(error) from error

    def _make_epochs(self, passes: Passes) -> Any:
        """A data set of one batch per epoch, made by tf.data as in training."""
        drawn = passes.count_epochs().map(lambda epoch: (epoch, self._drawn))
        return ImageBatches(self._paths, self._view, self._own, passes, self._columns).make_images(
            drawn
        )

    def _name_shares(self, own_share: Any) -> list[dict[str, float]]:
        """The classes' shares in each view, from float32 [records], see `Batch`, or None."""
        labels = self._drawn["label"]
        own = np.ones(len(labels)) if own_share is None else own_share.numpy()
        named = []
        for one, other, share in zip(
            labels.numpy(), partner_of(labels).numpy(), own.tolist(), strict=True
        ):
            parts = {other.decode(errors="replace"): 1 - share} if share < 1 else {}
            name = one.decode(errors="replace")
            named.append({name: parts.pop(name, 0) + share, **parts})
        return named

    def _explain(self, error: Exception) -> Exception:
        """The error, explained if it probably comes from a function that the user wrote."""
        steps = [step.op for step in self._feeding.augment if isinstance(step, UserStep)]
        if not steps:
            return error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return UserError(
            f"the steps of feeding.augment must work on a batch, but with {', '.join(steps)} "
            f"there was {type(error).__name__}: {lines[-1] if lines else ''}"
        )


def _decode_stored(drawn: Mapping[str, Any], number: int) -> np.ndarray:
    """Decodes one of the drawn records as it is stored: uint8 [height, width, channels]."""
    image = take_image({key: drawn[key][number].numpy() for key in IMAGE_KEYS})
    return decode_image(image, image.channels)


def _decode_stored_mask(drawn: Mapping[str, Any], number: int) -> np.ndarray:
    size = (int(drawn[record.HEIGHT][number]), int(drawn[record.WIDTH][number]))
    return decode_mask(drawn[record.MASK][number].numpy(), size)


def _read_mask_options(paths: Sequence[str]) -> dict[str, Any] | None:
    """`ingest.masks` of the first data set."""
    root, _ = group_by_root(paths)[0]
    return read_manifest(root).options.get("masks")
