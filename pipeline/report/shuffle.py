"""How well the data are shuffled: as they are stored, and as an epoch of training draws them."""

import dataclasses

import numpy as np

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.selection import make_order, select
from image_pipeline.components.order.draws import Order
from image_pipeline.components.order.order import ShuffledOrder
from image_pipeline.components.order.quality import ShuffleQuality, ideal_quality, measure_quality
from image_pipeline.report.data_set import DataSet

_TRAIN = "train"
_MEANINGS = {
    "rank_correlation": "with the former order: 0 for a shuffle, 1 for the same order",
    "repeated_neighbours": "share of the former neighbours that are neighbours again",
    "classes_in_batch": "different classes in a batch, on average",
    "label_run": "length of a run of one class, on average",
}


@dataclasses.dataclass(frozen=True)
class ShuffleRow:
    """One figure.

    Attributes:
      name: a field of `ShuffleQuality`.
      stored: its value for the stored order.
      epoch: its value for an epoch of training.
      ideal: its expected value for a random permutation; None if the options ask for another order.
      meaning: what the figure means.
    """

    name: str
    stored: float
    epoch: float
    ideal: float | None
    meaning: str


@dataclasses.dataclass(frozen=True)
class ShuffleFigures:
    """The figures for a batch size."""

    batch_size: int
    rows: list[ShuffleRow]


def describe_shuffle(data: DataSet, feeding: FeedingOptions, seed: int) -> ShuffleFigures | None:
    """Measures the order of the train split.

    The stored order is compared with the listing of the sources, in which a batch of neighbours
    would be of one class; the epoch's with the stored order, and with the next epoch.

    Args:
      data: the data set.
      feeding: the options of training; they decide the epoch.
      seed: the seed of training.

    Returns:
      None if there are fewer than two records to train on.

    Raises:
      UserError: if an option does not fit the data set.
    """
    if _TRAIN not in data.splits:
        return None
    rows = np.flatnonzero(data.split == data.splits.index(_TRAIN))
    shards = np.unique(data.index.shard[rows]).tolist()
    index = read_index([data.index.shard_paths[shard] for shard in shards])
    order = make_order(index, feeding, True, seed)
    size = min(feeding.batch_size, order.length, len(rows))
    if size < 2:
        return None
    stored = _measure_stored(data, rows, size)
    epoch = _measure_epoch(order, index.label, size)
    ideal = None
    if isinstance(order, ShuffledOrder):
        ideal = ideal_quality(index.label[select(index, feeding, True)], size)
    return ShuffleFigures(size, _tabulate(stored, epoch, ideal))


def _measure_stored(data: DataSet, rows: np.ndarray, batch_size: int) -> ShuffleQuality:
    """Measures some rows in the stored order, compared with the listing of their sources."""
    rank, labels = _rank_by_source(data, rows)
    return measure_quality(rank, np.sort(rank), labels, batch_size)


def _rank_by_source(data: DataSet, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row's place in the sorted listing of sources, and the labels in that listing's order."""
    source = data.table["source"].take(rows)
    listing = np.argsort(source.to_numpy(), kind="stable")
    rank = np.empty(len(rows), np.int64)
    rank[listing] = np.arange(len(rows))
    return rank, data.index.label[rows][listing]


def _measure_epoch(order: Order, labels: np.ndarray, batch_size: int) -> ShuffleQuality:
    """Measures the first epoch, compared with the next one."""
    drawn, following = (order.draw(epoch, np.arange(order.length)).rows for epoch in (0, 1))
    return measure_quality(drawn, following, labels, batch_size)


def _tabulate(
    stored: ShuffleQuality, epoch: ShuffleQuality, ideal: ShuffleQuality | None
) -> list[ShuffleRow]:
    return [
        ShuffleRow(
            name,
            getattr(stored, name),
            getattr(epoch, name),
            None if ideal is None else getattr(ideal, name),
            meaning,
        )
        for name, meaning in _MEANINGS.items()
    ]
