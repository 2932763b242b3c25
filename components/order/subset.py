"""Which rows of the index are read at all: conditions, fractions, folds, a fixed evaluation set.

All but conditions go by hashes of ids, so what is chosen does not depend on what else there is, nor
on the order of the rows: adding data moves nothing from one fold or fraction to another.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.hashing import hash_strings
from image_pipeline.components.order.balance import round_shares
from image_pipeline.components.order.where import match_rows

# Keep the hashes of the three uses unrelated: a fraction must not empty a fold.
_FRACTION, _FOLD, _EVAL_SUBSET = 1, 2, 3


def select_rows(
    table: pa.Table,
    where: str | None = None,
    fraction: float = 1.0,
    fold: tuple[int, int] | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Chooses rows of the index; several criteria must all be met.

    Args:
      table: columns of the index: `record_id`, `group` if folds shall keep groups together, and
        those that `where` names.
      where: a condition, see `where.match_rows`; None for all.
      fraction: expected share of the records, in (0, 1]. By the hash of the record id: the same
        records each time, and all of a smaller fraction are in every larger one.
      fold: (k, n) for the k-th of n folds, from 0; together they are everything. By the hash of the
        group, or of the record id where there is none, so that a group is never torn.
      seed: other seeds, other fractions and folds.

    Returns:
      int64 [rows chosen], ascending; may be empty.

    Raises:
      UserError: if the condition is wrong.
      ValueError: if the fraction or the fold is out of range.
    """
    chosen = np.ones(table.num_rows, bool)
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be in (0, 1], got {fraction}; set select.fraction.")
    if where is not None:
        chosen &= match_rows(table, where)
    if fraction < 1:
        hashes = hash_strings(table["record_id"], (seed, _FRACTION))
        chosen &= hashes < np.uint64(int(fraction * 2**64))
    if fold is not None:
        chosen &= _fold_of(table, fold[1], seed) == _check_fold(fold)
    return np.flatnonzero(chosen)


def _check_fold(fold: tuple[int, int]) -> int:
    number, folds = fold
    if not 0 <= number < folds:
        raise ValueError(f"fold must be [k, n] with 0 <= k < n, got {list(fold)}; set select.fold.")
    return number


def _fold_of(table: pa.Table, folds: int, seed: int) -> np.ndarray:
    """The fold that each row belongs to: int64 [rows]."""
    unit = table["record_id"]
    if "group" in table.column_names:
        group = pc.fill_null(table["group"], "")
        unit = pc.if_else(pc.equal(group, ""), unit, group)
    hashes = hash_strings(unit, (seed, _FOLD)) >> np.uint64(32)
    return (hashes * np.uint64(folds) >> np.uint64(32)).astype(np.int64)


def eval_subset(table: pa.Table, n: int, seed: int = 0, stratified: bool = True) -> np.ndarray:
    """Chooses the records of a reproducible evaluation subset: those of the lowest hashes.

    Args:
      table: columns of the index: `record_id`, and `label` to stratify.
      n: how many; all if there are fewer.
      seed: other seeds, other subsets.
      stratified: whether every class gets its share of `n`, to within one record (largest
        remainder; of equal ones the class whose first record has the lower hash).

    Returns:
      int64 [min(n, rows)], ascending.

    Raises:
      ValueError: if n is not positive.
    """
    if n < 1:
        raise ValueError(f"n must be positive, got {n}; set eval_subset.records.")
    n = min(n, table.num_rows)
    by_hash = np.argsort(hash_strings(table["record_id"], (seed, _EVAL_SUBSET)), kind="stable")
    if not stratified or not n:
        return np.sort(by_hash[:n])
    codes = np.asarray(table["label"].combine_chunks().dictionary_encode().indices)[by_hash]
    return np.sort(by_hash[_is_in_share(codes, n)])


def _is_in_share(codes: np.ndarray, n: int) -> np.ndarray:
    """Whether each row is among the first of its class that fill its share of n: bool [rows]."""
    _, first, numbers, counts = np.unique(
        codes, return_index=True, return_inverse=True, return_counts=True
    )
    by_first = np.argsort(first)
    due = np.empty(len(counts), np.int64)
    due[by_first] = round_shares(counts[by_first] * (n / len(codes)), n)
    # The place of each row within its class.
    order = np.argsort(numbers, kind="stable")
    places = np.empty(len(codes), np.int64)
    places[order] = np.arange(len(codes)) - (np.cumsum(counts) - counts)[numbers[order]]
    return places < due[numbers]
