"""A small, safe language of conditions on the index's columns.

    label in ("cat", "dog") and 128 < height <= 512 and not ("cmyk" in notes)

It is Python's own grammar, read by Python's parser and evaluated here, column by column, without
running any of it: names of columns, constants, comparisons, in, not in, and, or, not. A missing
text counts as the empty one.
"""

import ast
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest

_COMPARE = {
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
}
_ALLOWED = "names of columns, constants, ==, !=, <, <=, >, >=, in, not in, and, or, not"


def match_rows(table: pa.Table, where: str) -> np.ndarray:
    """Finds the rows that a condition holds for.

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
