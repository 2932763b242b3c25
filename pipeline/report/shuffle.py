"""How well the data are shuffled: as they are stored, and as an epoch of training draws them."""

import dataclasses

import numpy as np

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.selection import make_order, select_labels
from image_pipeline.components.order.order import ShardsOrder, ShuffledOrder
from image_pipeline.components.order.quality import ideal_quality, measure_quality
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
      ideal: its expected value for a random permutation; None if the options ask for another order.
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
    """Measures the order of the train split; None if fewer than two records are to be trained on.

    The stored order is compared with the listing of the sources, in which a batch of neighbours
    would be of one class; the epoch's with the stored order, and with the next epoch.

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
    # Each row's position in the sorted listing of sources.
    listing = np.argsort(data.table["source"].take(rows).to_numpy(), kind="stable")
    rank = np.empty(len(rows), np.int64)
    rank[listing] = np.arange(len(rows))
    stored = measure_quality(rank, np.sort(rank), data.index.label[rows][listing], size)
    drawn, following = (order.draw(epoch, np.arange(order.length)).rows for epoch in (0, 1))
    epoch = measure_quality(drawn, following, index.label, size)
    ideal = None
    if isinstance(order, ShuffledOrder | ShardsOrder) and feeding.many_views.count == 1:
        ideal = ideal_quality(select_labels(index, feeding, True), size)
    figures = [
        ShuffleRow(
            name,
            getattr(stored, name),
            getattr(epoch, name),
            None if ideal is None else getattr(ideal, name),
            meaning,
        )
        for name, meaning in _MEANINGS.items()
    ]
    return ShuffleFigures(size, figures)
