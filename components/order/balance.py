"""Classes in given shares, up to a cap: whole draws, and their order."""

import functools
from collections.abc import Mapping
from typing import Literal

import numpy as np

from image_pipeline.components.errors import UserError
from image_pipeline.components.order.draws import Draws, Rows, check_rows, take_rows
from image_pipeline.components.order.permutation import invert, permute

Weights = Literal["uniform"] | Mapping[int, float]


class BalancedOrder:
    """Draws from lists of each class's rows, so that classes have the shares that are asked for.

    Every epoch has the same number of draws of a class (see `share_draws`), placed at random: all
    rows of the class as often as they fit in, and for the rest a part of them, in laps through the
    class that are each in a new order (see `laps`). So within an epoch, and from the first epoch to
    any other, the rows of a class differ by at most one in how often they are drawn, and do not
    come in the same company.

    Data sets are mixed with weights by the same means: let `labels` say whose row it is.
    """

    def __init__(
        self,
        labels: np.ndarray,
        rows: Rows,
        weights: Weights,
        seed: int,
        max_oversampling: float,
        length: int | None = None,
    ):
        """Sorts the rows by class: up to 4 bytes a row are held (8 from row 2**32 on).

        For two epochs 8 bytes are held of each draw beyond whole laps, too.

        Args:
          labels: int [n], the class of each of `rows`.
          rows: n rows of the index.
          weights: "uniform", or the weights of the classes that are drawn; others are left out.
          seed: decides the order, together with the epoch's number.
          max_oversampling: how often a class's rows may be drawn an epoch, on average.
          length: draws an epoch; None for as many as there are rows of the classes drawn.

        Raises:
          UserError: if the weights do not fit the classes, or the cap leaves draws untaken.
          ValueError: if there are no rows, or not one label per row.
        """
        check_rows(rows)
        if len(labels) != len(rows):
            raise ValueError(
                f"there must be one label per row, got {len(labels)} for {len(rows)} rows."
            )
        self._classes, self._counts = np.unique(labels, return_counts=True)
        chosen = class_weights(self._classes, weights)
        self.length = int(self._counts[chosen > 0].sum()) if length is None else length
        self._draws = share_draws(self._counts, chosen, self.length, max_oversampling)
        self._whole, self._parts = np.divmod(self._draws, self._counts)
        # NumPy sorts numbers of 16 bits by their digits.
        smallest = np.result_type(*map(np.min_scalar_type, self._classes[[0, -1]].tolist()))
        by_class = take_rows(rows, np.argsort(labels.astype(smallest), kind="stable"))
        self._rows = by_class.astype(np.min_scalar_type(int(by_class.max())))
        self._seed = seed
        # Of the epoch that is read and, at its end, the next one.
        self._parts_of = functools.lru_cache(maxsize=2)(self._draw_parts)

    def shares(self) -> dict[int, float]:
        """The effective distribution: each class's share of an epoch's draws."""
        return dict(zip(self._classes.tolist(), self._draws / self.length, strict=True))

    def oversampling(self) -> dict[int, float]:
        """How often a row of each class is drawn in an epoch, on average."""
        return dict(zip(self._classes.tolist(), self._draws / self._counts, strict=True))

    def draw(self, epoch: int, positions: np.ndarray) -> Draws:
        """As `Order.draw`."""
        slots = permute(positions, self.length, (self._seed, epoch))
        # The epoch's draws class by class: slots [ends[c - 1], ends[c]) are those of class c.
        ends = np.cumsum(self._draws)
        number = np.searchsorted(ends, slots, side="right")
        draw = slots - (ends - self._draws)[number]
        laps, place = np.divmod(draw, self._counts[number])
        in_part = laps == self._whole[number]  # else in a whole lap, which has every row
        before = (np.cumsum(self._parts) - self._parts)[number[in_part]]
        place[in_part] = self._parts_of(epoch)[before + place[in_part]]
        place += (np.cumsum(self._counts) - self._counts)[number]
        rows = self._rows[place].astype(np.int64)
        return Draws(rows, np.zeros_like(rows), laps)

    def find(self, epoch: int, row: int) -> np.ndarray:
        """As `Order.find`; of a row that occurs, in time that grows with the rows of its class."""
        found = np.flatnonzero(self._rows == row)
        if not len(found):
            return np.zeros(0, np.int64)
        firsts = np.cumsum(self._counts) - self._counts
        number = int(np.searchsorted(firsts, found[0], side="right")) - 1
        place = int(found[0] - firsts[number])
        # Its draws among those of its class: one in each whole lap, perhaps one in the last part.
        draws = np.arange(self._whole[number]) * self._counts[number] + place
        start = int((np.cumsum(self._parts) - self._parts)[number])
        part = self._parts_of(epoch)[start : start + self._parts[number]]
        last = self._whole[number] * self._counts[number] + np.flatnonzero(part == place)
        slots = np.concatenate([draws, last]) + (np.cumsum(self._draws) - self._draws)[number]
        return np.sort(invert(slots, self.length, (self._seed, epoch)))

    def _draw_parts(self, epoch: int) -> np.ndarray:
        """What an epoch draws beyond whole laps: places within the class, class by class: int64."""
        parts = [
            draw_part(count, part, epoch, (self._seed, number))
            for number, (count, part) in enumerate(
                zip(self._counts.tolist(), self._parts.tolist(), strict=True)
            )
            if part
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts])


def class_weights(classes: np.ndarray, weights: Weights) -> np.ndarray:
    """Looks up each class's weight.

    Args:
      classes: int [c], the classes that have rows, each once.
      weights: "uniform", or the weights of the classes that are drawn.

    Returns:
      float64 [c], 0 for classes that have no weight.

    Raises:
      UserError: if a class with a weight has no rows, or the weights are none.
    """
    if isinstance(weights, str):
        if weights != "uniform":
            raise UserError(
                f"balance must be 'uniform' or a weight for each class, got {weights!r}."
            )
        return np.ones(len(classes))
    if missing := sorted(set(weights) - set(classes.tolist())):
        raise UserError(
            f"balance: class {missing[0]} has a weight, but none of the selected rows; "
            "take it out of the weights, or select more rows."
        )
    found = np.array([float(weights.get(number, 0)) for number in classes.tolist()])
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        raise UserError(
            f"balance: weights must be finite, not negative and not all 0, got {dict(weights)}."
        )
    return found


def share_draws(
    counts: np.ndarray, weights: np.ndarray, length: int, max_oversampling: float
) -> np.ndarray:
    """Deals an epoch's draws out to classes in proportion to their weights.

    A class whose share would exceed `max_oversampling` draws a row gets just those, and what it
    cannot take goes to the others in proportion to their weights, until nothing exceeds its cap.
    Fractions of a draw go to the largest remainders (Hamilton's method).

    Args:
      counts: int64 [c], rows of each class, at least 1.
      weights: float64 [c], not negative, not all 0.
      length: draws an epoch.
      max_oversampling: how often a class's rows may be drawn an epoch, on average; inf for no cap.

    Returns:
      int64 [c], adding up to `length`; without a cap in force, each is its share of the length to
      within one draw.

    Raises:
      UserError: if the classes with a weight cannot take so many draws.
    """
    # Rounded, so that 2.3 x 100 is 230 and not the 229.99… of binary fractions.
    caps = np.floor(np.round(np.minimum(max_oversampling * counts, float(length)), 6))
    is_full = np.zeros(len(counts), bool)
    while True:
        free = np.where(is_full, 0, weights)
        left = length - caps[is_full].sum()
        if left > 0 and not free.any():
            raise UserError(
                f"max_oversampling={max_oversampling} lets the classes of balance take "
                f"{int(caps[weights > 0].sum())} draws, but an epoch has {length}; "
                "raise max_oversampling, or make the epoch shorter."
            )
        due = np.where(is_full, caps, left * free / max(free.sum(), np.finfo(float).tiny))
        if not (due > caps).any():
            return round_shares(due, length)
        is_full |= due > caps


def round_shares(due: np.ndarray, total: int) -> np.ndarray:
    """Rounds shares to whole numbers by the largest remainder (Hamilton's method).

    Args:
      due: float64 [c], adding up to `total`.
      total: what the result adds up to.

    Returns:
      int64 [c], each the share rounded up or down; of equal remainders the first is rounded up.
    """
    rounded = np.floor(due).astype(np.int64)
    by_remainder = np.argsort(rounded - due, kind="stable")
    rounded[by_remainder[: total - int(rounded.sum())]] += 1
    return rounded


def draw_part(count: int, part: int, epoch: int, key: tuple[int, ...]) -> np.ndarray:
    """The rows of a class that one epoch draws once more than the others.

    Part after part, epochs go through all rows before any comes again: a lap. Each lap has its own
    order: otherwise the same rows would always come together. From epoch 0 on, rows differ by at
    most one in how often they are drawn; any two are drawn in the same epoch equally often, except
    for chance.

    Args:
      count: rows of the class.
      part: how many of them an epoch draws, less than `count`.
      epoch: from 0.
      key: decides the orders, see `permute`.

    Returns:
      int64 [part], different numbers from range(count).
    """
    if 2 * part > count:  # Then it is the others that take turns, so that laps are long enough.
        others = draw_part(count, count - part, epoch, key)
        return np.setdiff1d(np.arange(count), others, assume_unique=True)
    lap, start = divmod(epoch * part, count)
    drawn = _lap(count, part, lap, key)[start : start + part]
    if len(drawn) == part:
        return drawn
    return np.concatenate([drawn, _lap(count, part, lap + 1, key)[: part - len(drawn)]])


def _lap(count: int, part: int, lap: int, key: tuple[int, ...]) -> np.ndarray:
    """The order of one lap: int64 [count].

    The lap before may have ended within an epoch. What that epoch takes from this lap, its head,
    must be other rows than what it took from the one before. They are drawn from all rows but those
    of this lap's own tail, which stays as it is, so that the lap after this one can look it up
    without knowing of this one's head.
    """
    order = permute(np.arange(count), count, (*key, lap))
    head = -lap * count % part
    if not head:
        return order
    tail = (count - head) % part
    before = permute(np.arange(count - part + head, count), count, (*key, lap - 1))
    body = order[: count - tail]
    # At most part - head of them are met, and half of the rows or more are left: enough for a head.
    chosen = np.flatnonzero(~np.isin(body, before))[:head]
    return np.concatenate([body[chosen], np.delete(body, chosen), order[count - tail :]])
