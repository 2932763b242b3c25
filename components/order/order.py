"""Which record comes when: every order is a pure function of (seed, epoch, position).

    order.draw(epoch, batch_positions(step, batch_size, order.length, remainder))

names the rows of the index that make up a batch. Nothing is kept between two calls, so an epoch can
be entered at any position, on any machine, by any number of workers. No TensorFlow, no files.

Here are the two plain orders, and the names of all orders.
"""

import dataclasses

import numpy as np

from image_pipeline.components.order.balance import BalancedOrder
from image_pipeline.components.order.draws import (
    Draws,
    Order,
    Rows,
    check_rows,
    find_place,
    single_draws,
    take_rows,
)
from image_pipeline.components.order.many_views import ViewsOrder
from image_pipeline.components.order.permutation import check_positions, invert, permute
from image_pipeline.components.order.shards_order import ShardsOrder

__all__ = [
    "BalancedOrder",
    "Draws",
    "Order",
    "Rows",
    "SequentialOrder",
    "ShardsOrder",
    "ShuffledOrder",
    "ViewsOrder",
]


@dataclasses.dataclass(frozen=True, eq=False)
class _OnceOrder:
    """What the orders that draw every row once an epoch share."""

    rows: Rows

    def __post_init__(self) -> None:
        check_rows(self.rows)

    @property
    def length(self) -> int:
        """Draws an epoch: as many as rows."""
        return len(self.rows)


@dataclasses.dataclass(frozen=True, eq=False)
class SequentialOrder(_OnceOrder):
    """Every row once an epoch, as they stand in `rows`: for evaluation."""

    def draw(self, epoch: int, positions: np.ndarray) -> Draws:
        """As `Order.draw`; every epoch is the same."""
        check_positions(positions, self.length)
        return single_draws(take_rows(self.rows, positions))

    def find(self, epoch: int, row: int) -> np.ndarray:
        """As `Order.find`."""
        return find_place(self.rows, row)


@dataclasses.dataclass(frozen=True, eq=False)
class ShuffledOrder(_OnceOrder):
    """Every row once an epoch, in a full permutation that is another one in every epoch.

    Given a range of rows it holds nothing, however many there are.
    """

    seed: int

    def draw(self, epoch: int, positions: np.ndarray) -> Draws:
        """As `Order.draw`."""
        return single_draws(
            take_rows(self.rows, permute(positions, self.length, (self.seed, epoch)))
        )

    def find(self, epoch: int, row: int) -> np.ndarray:
        """As `Order.find`."""
        return invert(find_place(self.rows, row), self.length, (self.seed, epoch))
