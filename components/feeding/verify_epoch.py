"""Verifies an epoch of training: reads all of it, and compares it with what the options promise."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import RecordIndex, find_index
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.feeding.selection import select, shared_by
from image_pipeline.components.order.batches import real_records
from image_pipeline.components.order.order import (
    BalancedOrder,
    Draws,
    ShardsOrder,
    ShuffledOrder,
)
from image_pipeline.components.order.quality import ShuffleQuality, ideal_quality, measure_quality
from image_pipeline.components.views.options import ViewOptions


@dataclasses.dataclass(frozen=True)
class VerifiedEpoch:
    """An epoch that was found correct.

    Attributes:
      epoch: its number.
      records: different records that were read.
      draws: records that were read, counting repetitions.
      steps: number of batches.
      padded: records that only fill up the last batch, and are not in `draws`.
      dropped: draws of the epoch that fill no batch, and were not read.
      quality: quality of its shuffle; None if it has no full batch, or only one record.
      ideal: the same, as expected of a uniformly random permutation; None if the options ask for
        another distribution than the data's.
    """

    epoch: int
    records: int
    draws: int
    steps: int
    padded: int
    dropped: int
    quality: ShuffleQuality | None
    ideal: ShuffleQuality | None


def verify_epoch(paths: list[str], feeding: FeedingOptions, seed: int, epoch: int) -> VerifiedEpoch:
    """Reads a whole training epoch, checksums and all, and counts every record.

    Each record must come as often as the options say: once; once for each of its `many_views`; or,
    with `balance` or `mix`, as often as any other of its class or data set, to within one.

    Raises:
      UserError: if a record is damaged, lost, repeated, or not the one in the index, which it
        names; or if the shards have no index, or an option does not fit the data set.
    """
    index = find_index(paths)
    if index is None:
        raise UserError(
            f"an epoch can only be verified by an index, but {paths[0]} has none beside its Split "
            "folder; ingest again."
        )
    checked = feeding.model_copy(update={"verify": "always", "bad_records": "stop"})
    # No views are made, so any size will do.
    records = BatchReader(index, ViewOptions(), checked, Passes(mode="train", seed=seed))
    size, length = feeding.batch_size, records.order.length
    drawn = _join([_read_step(records, epoch, step, size) for step in range(records.steps)])
    # Draws that do not fill a batch are still part of the epoch's order.
    dropped = records.order.draw(epoch, np.arange(min(records.steps * size, length), length))
    selected = np.asarray(select(index, feeding, True))
    _check_counts(_join([drawn, dropped]), selected, records, feeding)
    quality, ideal = _measure(drawn.rows, selected, records, feeding, epoch)
    return VerifiedEpoch(
        epoch=epoch,
        records=len(np.unique(drawn.rows)),
        draws=len(drawn.rows),
        steps=records.steps,
        padded=max(records.steps * size - length, 0) if feeding.remainder == "pad" else 0,
        dropped=len(dropped.rows),
        quality=quality,
        ideal=ideal,
    )


def _read_step(records: BatchReader, epoch: int, step: int, batch_size: int) -> Draws:
    """Reads a batch, without padding, and checks that its records are those in the index."""
    draws = records.draw_records(epoch, step)
    serialized = records.read_serialized(draws.rows)
    for row, data in zip(draws.rows.tolist(), serialized, strict=True):
        found = record.read_source_id(data)
        if found != records.index.record_id[row].tobytes().hex():
            raise _order_error(records.index, row, f"there, but has the record id {found}")
    real = real_records(step, batch_size, records.order.length)
    return Draws(draws.rows[:real], draws.views[:real], draws.copies[:real])


def _check_counts(
    drawn: Draws, selected: np.ndarray, records: BatchReader, feeding: FeedingOptions
) -> None:
    """Checks that every row is drawn as often as it must be, and that no two draws are alike."""
    index = records.index
    _check_ids(index)
    least, greatest = _count_due(index, selected, records, feeding)
    counts = np.bincount(drawn.rows, minlength=len(index))
    wrong = np.flatnonzero((counts < least) | (counts > greatest))
    if len(wrong):
        row = int(wrong[0])
        due = f"{least[row]}" + (f" or {greatest[row]}" if least[row] < greatest[row] else "")
        raise _order_error(
            index, row, f"due {due} times, but comes {counts[row]} times, as {len(wrong)} are wrong"
        )
    # A draw's augmentation seed: two that are equal would give the same image twice.
    order = np.lexsort((drawn.copies, drawn.views, drawn.rows))
    alike = np.ones(max(len(order) - 1, 0), bool)
    for numbers in (drawn.rows, drawn.views, drawn.copies):
        alike &= numbers[order][1:] == numbers[order][:-1]
    if alike.any():
        row = int(drawn.rows[order][1:][alike][0])
        raise _order_error(index, row, "due in different views, but comes in the same one twice")


def _count_due(
    index: RecordIndex, selected: np.ndarray, records: BatchReader, feeding: FeedingOptions
) -> tuple[np.ndarray, np.ndarray]:
    """The least and most times each row of the index must come in an epoch: int64 [rows]."""
    least = np.zeros(len(index), np.int64)
    least[selected] = feeding.many_views.count
    greatest = least.copy()
    if isinstance(records.order, BalancedOrder):
        codes, _ = shared_by(index, feeding)
        for number, times in records.order.oversampling().items():
            rows = selected[codes[selected] == number]
            # Against binary fractions such as 2.9999999 for 3.
            due = round(times * len(rows))
            least[rows], greatest[rows] = due // len(rows), -(-due // len(rows))
    return least, greatest


def _check_ids(index: RecordIndex) -> None:
    ids = np.ascontiguousarray(index.record_id).view("V16").ravel()
    order = np.argsort(ids, kind="stable")
    repeated = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if len(repeated):
        first, second = order[repeated[0]], int(order[repeated[0] + 1])
        raise _order_error(index, second, f"alone, but has the id of {index.describe(first)}")


def _order_error(index: RecordIndex, row: int, problem: str) -> UserError:
    root = index.roots[index.data_set[row]]
    return UserError(
        f"{index.describe(row)} must be {problem}; run `image-pipeline verify {root}`, and "
        "report the options, the seed and the epoch if that finds nothing."
    )


def _measure(
    rows: np.ndarray,
    selected: np.ndarray,
    records: BatchReader,
    feeding: FeedingOptions,
    epoch: int,
) -> tuple[ShuffleQuality | None, ShuffleQuality | None]:
    """The metrics of the shuffle, and their ideal values."""
    if len(rows) < max(feeding.batch_size, 2) or len(np.unique(rows)) == 1:
        return None, None
    label, size = records.index.label, feeding.batch_size
    following = records.order.draw(epoch + 1, np.arange(records.order.length)).rows
    quality = measure_quality(rows, following, label, size)
    is_plain = isinstance(records.order, ShuffledOrder | ShardsOrder)
    is_plain &= feeding.many_views.count == 1
    return quality, ideal_quality(label[selected], size) if is_plain else None


def _join(parts: Sequence[Draws]) -> Draws:
    names = ("rows", "views", "copies")
    return Draws(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
