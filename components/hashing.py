"""Hashes that are the same on every machine: of numbers, of keys, of columns of strings."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WORD_BYTES = 8
# Strings hashed at once: enough to hide NumPy's overhead, few enough to stay in the cache.
_CHUNK = 1 << 14


def mix64(values: np.ndarray) -> np.ndarray:
    """Mixes all 64 bits, bijectively, with the finalizer of SplitMix64.

    From G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
    (variant 13 of D. Stafford's mixers).

    Args:
      values: uint64 [...], not a scalar.

    Returns:
      uint64 [...], of the same shape.
    """
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def key_words(key: tuple[int, ...]) -> np.ndarray:
    """Hashes a key to eight independent words (BLAKE2b, RFC 7693).

    Args:
      key: whole numbers of any size, such as (seed, epoch).

    Returns:
      uint64 [8].
    """
    digest = hashlib.blake2b(",".join(str(int(part)) for part in key).encode(), digest_size=64)
    return np.frombuffer(digest.digest(), "<u8").astype(np.uint64)


def hash_strings(column: pa.ChunkedArray, key: tuple[int, ...]) -> np.ndarray:
    """Hashes every string by its UTF-8 bytes and the key, about 3 million ids a second.

    A value's hash depends on nothing but its bytes and the key: not on the other values, nor on
    how the column is cut into chunks. Not meant to withstand strings made up to collide.

    Args:
      column: strings; null counts as the empty string.
      key: whole numbers; hashes under different keys are unrelated.

    Returns:
      uint64 [n], uniformly distributed.
    """
    start = key_words(key)[:1]
    texts = pc.fill_null(column.cast(pa.large_string()), "")
    hashes = [
        _hash_texts(chunk.slice(first, _CHUNK), start)
        for chunk in texts.chunks
        for first in range(0, len(chunk), _CHUNK)
    ]
    return np.concatenate([np.zeros(0, np.uint64), *hashes])


def _hash_texts(texts: pa.LargeStringArray, start: np.ndarray) -> np.ndarray:
    """Folds each text's words of eight bytes into a hash, then its length: uint64 [n]."""
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    hashes = np.repeat(start, len(texts))
    for first in range(0, int(lengths.max()), _WORD_BYTES):
        longer = np.flatnonzero(lengths > first)  # Only these: so no text's hash sees another's.
        words = _words_at(data, offsets[longer] + first, offsets[longer + 1])
        hashes[longer] = mix64(hashes[longer] ^ words)
    return mix64(hashes ^ lengths.astype(np.uint64))


def _words_at(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The eight bytes at each start as a number, zeros from the end on: uint64 [n]."""
    positions = starts[:, None] + np.arange(_WORD_BYTES)
    inside = positions < ends[:, None]
    taken = np.where(inside, data[np.where(inside, positions, 0)], np.uint8(0))
    return taken.view("<u8")[:, 0].astype(np.uint64)
