"""What an order of records is, and what all orders share."""

import dataclasses
from typing import Protocol

import numpy as np

# Rows of the index: any list of them, or a range, which takes no memory.
Rows = np.ndarray | range


@dataclasses.dataclass(frozen=True, eq=False)
class Draws:
    """What n positions of an epoch draw.

    Attributes:
      rows: int64 [n], rows of the index.
      views: int64 [n], which view of the image; 0 unless several are asked for.
      copies: int64 [n], how often the row was drawn before with this view in this epoch; 0 unless
        classes are oversampled, or a batch is padded (then more by the epoch's length). With row
        and view it seeds the random augmentation.
    """

    rows: np.ndarray
    views: np.ndarray
    copies: np.ndarray


class Order(Protocol):
    """An order of drawing records."""

    @property
    def length(self) -> int:
        """Draws an epoch."""

    def draw(self, epoch: int, positions: np.ndarray) -> Draws:
        """Says what each position (int64 [n], in [0, length)) of an epoch draws, in any order.

        Raises:
          ValueError: if a position is out of range.
        """

    def find(self, epoch: int, row: int) -> np.ndarray:
        """The positions of an epoch that draw a row of the index, ascending: int64 [k].

        None where the row is not selected, or not drawn in this epoch. What `draw` says, asked the
        other way: nothing is searched but the place of the row among those that are selected.
        """


def check_rows(rows: Rows) -> None:
    """Raises ValueError if there are none."""
    if not len(rows):
        raise ValueError("rows must not be empty; select at least one record of the index.")


def take_rows(rows: Rows, places: np.ndarray) -> np.ndarray:
    """The rows at these places (int64 [n]): int64 [n]."""
    if isinstance(rows, range):
        return rows.start + rows.step * places.astype(np.int64)
    return rows[places].astype(np.int64)


def find_place(rows: Rows, row: int) -> np.ndarray:
    """The place of a row among different rows: int64 [1], or [0] where it is not there."""
    if isinstance(rows, range):
        return np.array([rows.index(row)] if row in rows else [], np.int64)
    return np.flatnonzero(rows == row)


def single_draws(rows: np.ndarray) -> Draws:
    """Draws of rows that come once per epoch."""
    return Draws(rows, np.zeros_like(rows), np.zeros_like(rows))
