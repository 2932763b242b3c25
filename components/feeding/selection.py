"""Which records an epoch has, and in which order, as the options say."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset.index import (
    RecordIndex,
    further_names,
    read_column,
    read_table,
)
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.manifest import has_manifest, read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions, SubsetOptions
from image_pipeline.components.messages import show
from image_pipeline.components.order.balance import Weights
from image_pipeline.components.order.order import (
    BalancedOrder,
    Order,
    Rows,
    SequentialOrder,
    ShardsOrder,
    ShuffledOrder,
    ViewsOrder,
)
from image_pipeline.components.order.subset import eval_subset, select_rows

# Columns that `select_rows` and `eval_subset` may need.
_SELECTING_COLUMNS = (
    *("record_id", "label", "group", "format", "height", "width", "channels", "split"),
    *("source", "source_format", "source_bytes", "source_height", "source_width", "orientation"),
    "notes",
)


def make_order(index: RecordIndex, feeding: FeedingOptions, training: bool, seed: int) -> Order:
    """Chooses the order that the options describe.

    Raises:
      UserError: if no record is selected, or a class is not in the data set.
    """
    rows = select(index, feeding, training)
    if not training:
        return SequentialOrder(rows)
    views = feeding.many_views.count
    if feeding.shuffle == "shards":
        sizes = feeding.batch_size, feeding.shards_at_once
        return _check_distance(ShardsOrder(rows, index.starts, seed, *sizes, views), feeding)
    if views > 1:
        return _check_distance(ViewsOrder(rows, seed, views), feeding)
    if feeding.mix is not None:
        return _share("mix", feeding.mix, index, rows, feeding, seed)
    if feeding.balance == "none":
        return ShuffledOrder(rows, seed)
    return _share("balance", feeding.balance, index, rows, feeding, seed)


def _share(
    option: str,
    wanted: str | Mapping[str, float],
    index: RecordIndex,
    rows: Rows,
    feeding: FeedingOptions,
    seed: int,
) -> BalancedOrder:
    codes, names = shared_by(index, feeding)
    codes = codes if isinstance(rows, range) else codes[rows]
    weights = _weights(option, wanted, names, codes)
    return BalancedOrder(codes, rows, weights, seed, feeding.max_oversampling)


def shared_by(index: RecordIndex, feeding: FeedingOptions) -> tuple[np.ndarray, Sequence[str]]:
    """What `mix` or `balance` share an epoch between: a code a row (int [records]), their names."""
    if feeding.mix is not None:
        return index.data_set, index.roots
    if feeding.balance_by == "label":
        _check_classes(index)
        return index.column("label"), index.classes
    column = read_column(index.shard_paths, feeding.balance_by)
    if pa.types.is_list(column.type):
        raise UserError(
            f"feeding.balance shares an epoch between single values, but {feeding.balance_by!r} "
            "holds lists; name another column by feeding.balance_by."
        )
    names, codes = np.unique(np.array(column.to_pylist(), object).astype(str), return_inverse=True)
    return codes, names.tolist()


def _check_classes(index: RecordIndex) -> None:
    """Raises UserError where images have tags or values instead of one class."""
    labels = {read_manifest(root).label for root in index.roots if has_manifest(root)}
    if kept := next(filter(None, labels), None):
        raise UserError(
            "feeding.balance shares an epoch between classes, but the labels are "
            f"{index_name(kept)}; name another column by feeding.balance_by, or leave it out."
        )


def _check_distance(
    order: ViewsOrder | ShardsOrder, feeding: FeedingOptions
) -> ViewsOrder | ShardsOrder:
    if order.views > 1 and feeding.batch_size > order.min_distance():
        raise UserError(
            f"feeding.many_views never has two views of an image in one batch, and so batches "
            f"of at most {order.min_distance()} for {len(order.rows)} images, got "
            f"{feeding.batch_size}; "
            "lower feeding.batch_size, or add images."
        )
    return order


def select_labels(index: RecordIndex, feeding: FeedingOptions, training: bool) -> np.ndarray:
    """The labels of the rows that are read, in their order: int32 [rows]."""
    label, rows = index.column("label"), select(index, feeding, training)
    return label if isinstance(rows, range) else label[rows]


def select(index: RecordIndex, feeding: FeedingOptions, training: bool) -> Rows:
    """The rows of the index that are read, in its order: int64 [rows], or a range for all."""
    select, subset = feeding.select, None if training else feeding.eval_subset
    if select == type(select)() and not subset:
        rows: Rows = range(len(index))
    else:
        # A condition may name any column; the others take some hundred bytes a record less.
        names = ["record_id", "group", "label"] + ["source"] * bool(select.leave_out)
        if select.where is not None:
            names = [*_SELECTING_COLUMNS, *further_names(index.shard_paths)]
        table = read_table(index.shard_paths, names)
        chosen = select_rows(table, select.where, select.fraction, None, 0)
        if select.leave_out:
            is_left_out = pc.is_in(table["source"], value_set=pa.array(select.leave_out))
            chosen = chosen[~np.asarray(is_left_out)[chosen]]
        if select.fold is not None:
            in_fold = select_rows(table, None, 1.0, select.fold, 0)
            chosen = (np.setdiff1d if training else np.intersect1d)(chosen, in_fold)
        if subset:
            taken = table.take(chosen)
            chosen = chosen[eval_subset(taken, subset.records, subset.seed, subset.stratified)]
        rows = chosen
    if not len(rows):
        raise UserError(
            "at least one record must be selected, but feeding.select "
            f"({_describe(select)}) leaves none of {len(index)}; widen it."
        )
    return rows


def _describe(select: SubsetOptions) -> str:
    """What is set of it, in short: a list of paths may have thousands."""
    chosen = select.model_dump(exclude_defaults=True)
    return " ".join(f"{name}={show(value)}" for name, value in chosen.items())


def _weights(
    option: str, wanted: str | Mapping[str, float], names: Sequence[str], codes: np.ndarray
) -> Weights:
    """The weights by number; exactly the names that have rows must have one.

    Args:
      option: "balance" or "mix", for messages.
      wanted: the weight of each class or data set, or "uniform".
      names: of the classes or data sets, by number.
      codes: int [rows], the number of each row that is read.
    """
    if isinstance(wanted, str):
        return "uniform"
    there = {names[code]: code for code in np.unique(codes).tolist()}
    noun = {"balance": "class", "mix": "data set"}[option]
    if missing := sorted(set(there) - set(wanted)):
        raise UserError(
            f"feeding.{option}: every {noun} that is read needs a weight. Missing: "
            f"{show(missing)}. Add it, or leave its records out with feeding.select."
        )
    if unread := sorted(set(wanted) - set(there)):
        raise UserError(
            f"feeding.{option} names {unread[0]!r}, which no selected record has; remove it. "
            f"The selected records have {show(sorted(there))}."
        )
    return {code: wanted[name] for name, code in there.items()}
