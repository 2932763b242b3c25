"""Laps of a class's rows: which of them an epoch draws once more than the others.

Part after part, epochs go through all rows before any comes again. Each lap has its own order:
otherwise the same rows would always come together.
"""

import numpy as np

from image_pipeline.components.order.permutation import permute


def draw_part(count: int, part: int, epoch: int, key: tuple[int, ...]) -> np.ndarray:
    """The rows of one epoch.

    From epoch 0 on, rows differ by at most one in how often they are drawn; any two are drawn in
    the same epoch equally often, except for chance.

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
