"""A shuffle without a list: where each position of an epoch goes, computed on demand.

`permute` is a keyed bijection of range(length) in the manner of format-preserving encryption: it
holds nothing, so an epoch of 10^12 records costs no more memory than one batch of it, and any
position can be asked for in any order, which is what makes resuming free.
"""

import math
from collections.abc import Callable

import numpy as np

from image_pipeline.components.hashing import key_words, mix64

MAX_LENGTH = 2**62
# Positions taken at once, so that all intermediate arrays stay in the processor's cache.
_CHUNK = 1 << 14
# Up to here hashes are sorted instead: a grid this small mixes poorly, and a sort costs no more.
_SORTED_LENGTH = 256


def permute(positions: np.ndarray, length: int, key: tuple[int, ...]) -> np.ndarray:
    """Sends each position to its place in a pseudo-random permutation of range(length).

    A position x is split into (x // columns, x mod columns), on a grid of about sqrt(length) by
    sqrt(length) cells that is a little larger than the length, and eight Feistel rounds add to each
    side in turn a hash of the other one, modulo the side: the generalized Feistel cipher of J.
    Black and P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 5. Whatever
    lands outside range(length) is sent on until it is inside (their "cycle walking", section 4),
    which less than one in sqrt(length) positions needs. Luby and Rackoff (1988) show four rounds to
    be enough for random round functions; there are eight, since ours are only good mixers and small
    lengths mix slowly. Lengths up to 256 are too small for rounds to mix well; for these, hashes of
    all positions are sorted.

    Only whole-number arithmetic: the same on every machine.

    Args:
      positions: integer [n], each in [0, length); any part of an epoch, in any order.
      length: from 1 to 2**62.
      key: whole numbers such as (seed, epoch); different keys give unrelated permutations.

    Returns:
      int64 [n], each in [0, length); different positions have different places.

    Raises:
      ValueError: if the length or a position is out of range.
    """
    return _send(positions, length, key, _encrypt)


def invert(places: np.ndarray, length: int, key: tuple[int, ...]) -> np.ndarray:
    """Finds the positions that `permute` sends to these places; arguments and errors are alike."""
    return _send(places, length, key, _decrypt)


def _send(
    numbers: np.ndarray, length: int, key: tuple[int, ...], encrypt: Callable[..., np.ndarray]
) -> np.ndarray:
    check_positions(numbers, length)
    keys = key_words(key)
    if length <= _SORTED_LENGTH:
        places = np.argsort(mix64(np.arange(length, dtype=np.uint64) ^ keys[0]))
        return (places if encrypt is _encrypt else np.argsort(places))[numbers]
    sent = np.empty(len(numbers), np.int64)
    for start in range(0, len(numbers), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        sent[chunk] = _walk(numbers[chunk].astype(np.uint64), length, keys, encrypt)
    return sent


def check_positions(positions: np.ndarray, length: int) -> None:
    """Raises ValueError unless all positions (integer [n]) lie in range(length)."""
    if not 1 <= length <= MAX_LENGTH:
        raise ValueError(
            f"length must be from 1 to 2**62, got {length}; check the selection of records."
        )
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise ValueError(
            f"positions must be whole numbers in one dimension, got {positions.dtype} "
            f"{list(positions.shape)}; pass an int64 array."
        )
    if len(positions) and not (positions.min() >= 0 and positions.max() < length):
        raise ValueError(
            f"positions must be in [0, {length}), got {positions.min()} to {positions.max()}; "
            "go on with position 0 of the next epoch."
        )


def _walk(
    places: np.ndarray, length: int, keys: np.ndarray, encrypt: Callable[..., np.ndarray]
) -> np.ndarray:
    """Encrypts (or decrypts) uint64 places until each is below the length.

    Every place starts inside and moves along a cycle of the grid's permutation, so it comes back
    inside at the latest where it started.
    """
    places = encrypt(places, length, keys)
    outside = np.flatnonzero(places >= length)
    while len(outside):
        places[outside] = encrypt(places[outside], length, keys)
        outside = outside[places[outside] >= length]
    return places


def _encrypt(places: np.ndarray, length: int, keys: np.ndarray) -> np.ndarray:
    """Permutes the cells of the grid, which has less than sqrt(length) + 1 cells too many."""
    rows, columns = _grid(length)
    left, right = np.divmod(places, np.uint64(columns))
    side, other = np.uint64(rows), np.uint64(columns)
    for key in keys:
        left += _hash_below(right ^ key, side)
        left -= side * (left >= side)  # Both terms were below the side: a modulo without dividing.
        left, right, side, other = right, left, other, side
    return left * np.uint64(columns) + right  # An even number of rounds: left is left again.


def _decrypt(places: np.ndarray, length: int, keys: np.ndarray) -> np.ndarray:
    """Undoes `_encrypt`: the rounds backwards, each subtracted."""
    rows, columns = _grid(length)
    left, right = np.divmod(places, np.uint64(columns))
    side, other = np.uint64(rows), np.uint64(columns)
    for key in keys[::-1]:
        left, right, side, other = right, left, other, side
        left += side - _hash_below(right ^ key, side)
        left -= side * (left >= side)
    return left * np.uint64(columns) + right


def _grid(length: int) -> tuple[int, int]:
    rows = math.isqrt(length - 1) + 1
    return rows, -(-length // rows)


def _hash_below(values: np.ndarray, bound: np.uint64) -> np.ndarray:
    """Hashes to [0, bound) with a multiplication (D. Lemire, 2019): bounds up to 2**31."""
    return ((mix64(values) >> np.uint64(32)) * bound) >> np.uint64(32)
