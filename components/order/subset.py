"""Which rows of the index are read at all: conditions, fractions, folds, a fixed evaluation set.

All but conditions go by hashes of ids, so what is chosen does not depend on what else there is, nor
on the order of the rows: adding data moves nothing from one fold or fraction to another.
"""

import ast
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.errors import UserError
from image_pipeline.components.hashing import hash_strings
from image_pipeline.components.messages import suggest
from image_pipeline.components.order.balance import round_shares

# Keep the hashes of the three uses unrelated: a fraction must not empty a fold.
_FRACTION, _FOLD, _EVAL_SUBSET = 1, 2, 3
_COMPARE = {
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
}
_ALLOWED = "names of columns, constants, ==, !=, <, <=, >, >=, in, not in, and, or, not"


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
      where: a condition, see `match_rows`; None for all.
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


def match_rows(table: pa.Table, where: str) -> np.ndarray:
    """Finds the rows for which a condition in a small, safe language holds.

        label in ("cat", "dog") and 128 < height <= 512 and not ("cmyk" in notes)

    It is Python's own grammar, read by Python's parser and evaluated here, column by column,
    without running any of it: names of columns, constants, comparisons, in, not in, and, or, not. A
    missing text counts as the empty one.

    Returns:
      bool [rows].

    Raises:
      UserError: if the condition is anything but the above; it names the part.
    """
    try:
        tree = ast.parse(where.strip(), mode="eval")
        return _Condition(table, where).evaluate(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise UserError(
            f"where: {where[:200]!r} is not a condition ({reason}); "
            'write one such as label in ("cat", "dog") and height > 128.'
        ) from error


class _Condition:
    """Evaluates the nodes of one condition to a bool [rows] each."""

    def __init__(self, table: pa.Table, where: str):
        self._table = table
        self._where = where

    def evaluate(self, node: ast.expr) -> np.ndarray:
        """The rows that a condition or a part of it holds for."""
        match node:
            case ast.BoolOp(op, values):
                join = np.logical_and if isinstance(op, ast.And) else np.logical_or
                return join.reduce([self.evaluate(value) for value in values])
            case ast.UnaryOp(ast.Not(), operand):
                return ~self.evaluate(operand)
            case ast.Compare(left, operators, operands):
                pairs = zip([left, *operands], operators, operands, strict=False)
                return np.logical_and.reduce([self._compare(node, *pair) for pair in pairs])
        self._refuse(node, "is not a condition")

    def _compare(
        self, node: ast.expr, left: ast.expr, operator: ast.cmpop, right: ast.expr
    ) -> np.ndarray:
        """One comparison; a < b < c is two of them."""
        if isinstance(operator, ast.In):
            return self._contains(node, left, right)
        if isinstance(operator, ast.NotIn):
            return ~self._contains(node, left, right)
        if type(operator) not in _COMPARE:
            self._refuse(node, "uses 'is', which compares nothing here")
        operands = self._operand(left), self._operand(right)
        kinds = [_kind_of(operand) for operand in operands]
        if kinds[0] != kinds[1] or "list" in kinds:
            self._refuse(node, f"compares a {kinds[0]} with a {kinds[1]}")
        return self._to_numpy(_COMPARE[type(operator)](*operands))

    def _contains(self, node: ast.expr, item: ast.expr, container: ast.expr) -> np.ndarray:
        """`column in (constants)`, or `constant in column` where the column holds lists."""
        if isinstance(container, ast.Tuple | ast.List | ast.Set):
            column = self._operand(item)
            values = [self._constant(element) for element in container.elts]
            kinds = {_kind_of(value) for value in values} | {_kind_of(column)}
            if len(kinds) > 1 or "list" in kinds:
                self._refuse(node, f"mixes {' and '.join(sorted(kinds))}")
            dtype = pa.string() if kinds == {"text"} else pa.float64()  # Exact up to 2**53.
            value_set = pa.array([value.as_py() for value in values], dtype)
            return self._to_numpy(pc.is_in(column.cast(dtype), value_set=value_set))
        column, value = self._operand(container), self._constant(item)
        if _kind_of(column) != "list":
            self._refuse(node, 'needs values in brackets after "in", such as ("cat", "dog")')
        listed = column.combine_chunks()
        item_kind = _kind_of(pa.nulls(0, listed.type.value_type))
        if item_kind != _kind_of(value):
            self._refuse(node, f"looks for a {_kind_of(value)} among each a {item_kind}")
        is_equal = np.asarray(pc.fill_null(pc.equal(pc.list_flatten(listed), value), False))
        found = np.zeros(self._table.num_rows, bool)
        found[np.asarray(pc.list_parent_indices(listed))[is_equal]] = True
        return found

    def _operand(self, node: ast.expr) -> Any:
        """A column or a constant, of pyarrow."""
        if not isinstance(node, ast.Name):
            return self._constant(node)
        known = self._table.column_names
        if node.id not in known:
            raise UserError(
                f"where: {node.id!r} in {self._where[:200]!r} is not a column; "
                f"{suggest(node.id, known)}known: {', '.join(known)}."
            )
        column = self._table[node.id]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return pc.fill_null(column, "") if _kind_of(column) == "text" else column

    def _constant(self, node: ast.expr) -> pa.Scalar:
        """A text or a number, maybe with a sign."""
        is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        literal = node.operand if isinstance(node, ast.UnaryOp) and is_negative else node
        value = literal.value if isinstance(literal, ast.Constant) else None
        if isinstance(value, str) and not is_negative:
            return pa.scalar(value)
        is_bool = isinstance(value, bool)  # Python counts True among the whole numbers.
        if isinstance(value, int | float) and not is_bool and abs(value) < 2**63:
            return pa.scalar(-value if is_negative else value)
        self._refuse(node, "is neither text nor a number of at most 63 bits")

    def _to_numpy(self, matched: Any) -> np.ndarray:
        """What pyarrow found, for every row, with False for null."""
        if isinstance(matched, pa.Scalar):
            return np.full(self._table.num_rows, bool(matched.as_py()))
        return np.asarray(pc.fill_null(matched, False))

    def _refuse(self, node: ast.expr, problem: str) -> NoReturn:
        raise UserError(
            f"where: {ast.unparse(node)!r} in {self._where[:200]!r} {problem}; allowed are "
            f"{_ALLOWED}. Columns: {', '.join(self._table.column_names)}."
        )


def _kind_of(operand: Any) -> str:
    """What may be compared with one another."""
    if pa.types.is_list(operand.type):
        return "list"
    return "text" if pa.types.is_string(operand.type) else "number"
