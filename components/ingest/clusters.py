"""Which images look alike, and which must stay together. Columns only: no files, no images."""

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

HASH_BITS = 64
# Links held at once before they are folded into the clusters: 16 bytes each.
_LINKS_AT_ONCE = 1_000_000
# Pairs compared at once: 8 bytes each.
_PAIRS_AT_ONCE = 1_000_000
# From this many hashes that agree in a table's bits, comparing all pairs beats stepping.
_LONG_RUN = 128


def cluster_hashes(hashes: np.ndarray, max_distance: int) -> np.ndarray:
    """Clusters hashes: two within `max_distance` share one, and so does what each is near to.

    Equal hashes are compared once, however many there are. Of the others, only those that agree in
    all bits of a whole table of bits are compared (see `_bit_tables`): at a distance of 4, about 21
    of 64. If bits are random, that is n**2 / 300,000 pairs: a million hashes take 2 s. Where half
    of the bits are the same in all hashes, it is every pair: 30,000 of them take 4 s. Memory grows
    with n only: about 80 bytes a hash.

    Args:
      hashes: uint64 [n].
      max_distance: how many of the 64 bits may differ.

    Returns:
      int64 [n], the cluster's number: 0, 1, 2, …
    """
    distinct, where = np.unique(hashes, return_inverse=True)
    clusters = np.arange(len(distinct))
    for table in _bit_tables(max_distance) if max_distance else ():
        clusters = _link_by_table(distinct, clusters, table, max_distance)
    return clusters[where]


def _bit_tables(max_distance: int) -> Iterator[np.uint64]:
    """Masks of bits such that two hashes within the distance agree on one whole mask at least.

    The pigeonhole principle (Manku, Jain, Das Sarma: Detecting near-duplicates for web crawling,
    WWW 2007): bits are cut into d + 2 bands, d differing bits touch d of them at most, so two
    bands remain. Masks of two bands out of d + 2 have nearly twice the bits of one out of d + 1,
    so that far fewer pairs agree by chance.
    """
    edges = np.arange(max_distance + 3) * HASH_BITS // (max_distance + 2)
    bands = [sum(1 << bit for bit in range(*edge)) for edge in itertools.pairwise(edges.tolist())]
    for first, second in itertools.combinations(bands, 2):
        yield np.uint64(first | second)


def _link_by_table(
    hashes: np.ndarray, clusters: np.ndarray, table: np.uint64, max_distance: int
) -> np.ndarray:
    """Joins clusters of hashes that agree on the table's bits and are near enough.

    Args:
      hashes: uint64 [n], distinct.
      clusters: int64 [n], each hash's cluster so far.
      table: the bits, as a mask.
      max_distance: how many of the 64 bits may differ.

    Returns:
      int64 [n], each hash's cluster.
    """
    order = np.argsort(hashes & table)
    links: list[np.ndarray] = [np.empty((2, 0), np.int64)]
    for near in _near_pairs(hashes[order], table, max_distance):
        pairs = order[near]
        links.append(pairs[:, clusters[pairs[0]] != clusters[pairs[1]]])
        if sum(link.shape[1] for link in links) > _LINKS_AT_ONCE:
            clusters, links = _join(clusters, *np.concatenate(links, axis=1)), links[:1]
    return _join(clusters, *np.concatenate(links, axis=1))


def _near_pairs(hashes: np.ndarray, table: np.uint64, max_distance: int) -> Iterator[np.ndarray]:
    """Finds near pairs among hashes that are sorted by the table's bits and agree in them.

    In short runs of hashes that agree, step s compares each hash of every run with the one s places
    on; in long runs all pairs are compared.

    Yields:
      int64 [2, any], the positions of the pairs, each pair once.
    """
    keys = hashes & table
    edges = np.flatnonzero(np.diff(keys, prepend=~keys[:1], append=~keys[-1:]))
    sizes = np.diff(edges)
    is_long = sizes > _LONG_RUN
    left = np.flatnonzero(np.repeat((sizes > 1) & ~is_long, sizes))
    end = np.repeat(edges[1:], sizes)[left]
    for step in range(1, _LONG_RUN):
        has_partner = left + step < end
        left, end = left[has_partner], end[has_partner]
        if not len(left):
            break
        near = left[np.bitwise_count(hashes[left] ^ hashes[left + step]) <= max_distance]
        yield np.stack([near, near + step])
    for first, last in zip(edges[:-1][is_long], edges[1:][is_long], strict=True):
        for pairs in _near_pairs_in_run(hashes[first:last], max_distance):
            yield pairs + first


def _near_pairs_in_run(hashes: np.ndarray, max_distance: int) -> Iterator[np.ndarray]:
    """Compares all pairs, in blocks of bounded memory; yields as `_near_pairs` does."""
    rows = max(1, _PAIRS_AT_ONCE // len(hashes))
    for first in range(0, len(hashes), rows):
        distance = np.bitwise_count(hashes[first : first + rows, None] ^ hashes[None, first:])
        pairs = np.stack(np.nonzero(distance <= max_distance))
        yield pairs[:, pairs[0] < pairs[1]] + first


def join_groups(*groupings: np.ndarray) -> np.ndarray:
    """Joins rows that are equal in any of several columns, directly or through others.

    Args:
      *groupings: each [n], of any type that sorts.

    Returns:
      int64 [n], the number of the joined group: 0, 1, 2, …
    """
    rows = np.arange(len(groupings[0]))
    joined = rows
    for grouping in groupings:
        _, first, where = np.unique(grouping, return_index=True, return_inverse=True)
        joined = _join(joined, rows, first[where])
    return joined


def _join(groups: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Joins the groups of linked rows.

    Args:
      groups: int64 [n], the number of each row's group: 0, 1, 2, ….
      left: int64 [links], one row of each link.
      right: int64 [links], the other one.

    Returns:
      int64 [n], the number of each row's joined group: 0, 1, 2, ….
    """
    if not len(left):
        return groups
    count = int(groups.max()) + 1
    # Of type bool, because SciPy adds up the values of repeated links, and bool cannot overflow.
    links = coo_array((np.ones(len(left), bool), (groups[left], groups[right])), (count, count))
    return connected_components(links, directed=False)[1].astype(np.int64)[groups]
