"""Which images belong together, and in which split a group of them is.

What is split is the *unit*: images that must stay together (exact copies, images of one group,
near-duplicates, and whatever these join). Equal hashes mean the same unit. A split is a pure
function of the unit, so adding data moves no other.
"""

import itertools
from collections.abc import Iterator, Mapping

import cv2
import imagehash
import numpy as np
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from image_pipeline.components.images.prepare import PreparedImage

HASH_BITS = 64
# Links held at once before they are folded into the clusters: 16 bytes each.
_LINKS_AT_ONCE = 1_000_000
# Pairs compared at once: 8 bytes each.
_PAIRS_AT_ONCE = 1_000_000
# From this many hashes that agree in a table's bits, comparing all pairs beats stepping.
_LONG_RUN = 128


def hash_image(image: PreparedImage) -> int:
    """Hashes what an image looks like, as pHash does (`imagehash.phash`).

    The image is shrunk to 32 x 32 grey pixels; each of the 64 bits says whether one of the 8 x 8
    lowest frequencies of its cosine transform is above their median. Size, compression, brightness
    and contrast hardly change that; a mirrored, turned or cropped image has another hash, and all
    blank images look alike. Decoding the luma of a stored 256-pixel JPEG and hashing it costs
    about 0.7 ms, a fifth of what preparing a photo costs.

    Args:
      image: the image in its stored form.

    Returns:
      The hash, 0 to 2**64 - 1.
    """
    data = np.frombuffer(image.encoded, np.uint8)
    if image.format != "raw":
        gray = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)
        assert gray is not None, "the stored image was encoded or checked just now"
    elif image.channels == 1:
        gray = data.reshape(image.height, image.width)
    else:
        gray = cv2.cvtColor(data.reshape(image.height, image.width, 3), cv2.COLOR_RGB2GRAY)
    return hash_gray(gray)


def hash_gray(gray: np.ndarray) -> int:
    """The hash of gray pixels, see `hash_image`.

    Args:
      gray: uint8 [height, width].
    """
    bits = imagehash.phash(Image.fromarray(gray)).hash  # bool [8, 8]
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


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


def assign_splits(hashes: np.ndarray, splits: Mapping[str, float]) -> np.ndarray:
    """Assigns each hash to a split.

    A hash is read as a fraction in [0, 1) and falls into the split whose interval contains it, so
    a record's split never depends on the other records, and equal hashes share a split.

    Args:
      hashes: uint64 [n], uniformly distributed (the first 8 bytes of a SHA-256).
      splits: each split's name and share, adding up to 1.

    Returns:
      int64 [n], positions in `splits`.
    """
    edges = np.cumsum(list(splits.values()))[:-1]
    return np.searchsorted(edges, hashes / 2.0**64, side="right")


def stratify_splits(
    hashes: np.ndarray, labels: np.ndarray, records: np.ndarray, splits: Mapping[str, float]
) -> np.ndarray:
    """Assigns each unit to a split so that every class gets its exact share in each.

    The units of a class are laid end to end in the order of their hashes, each as long as it has
    records, and the line is cut at the splits' cumulative shares. A unit belongs where one point of
    it lies: at the same fraction of its length for all units of a class. That fraction comes from
    the hash of the class's first unit, so that shares which are no whole numbers of records are
    rounded up in some classes and down in others (systematic sampling with a random start), and
    many small classes do not all round the same way. A class's first unit is in `train`, if there
    is such a split, so that no class is evaluated that was never learned; unless all classes have
    one unit, and nothing would be left to evaluate with.

    Hence the records of a class in a split differ from its share by less than the class's largest
    unit: by less than one record where units are single images. In return, unlike
    `assign_splits`, adding data may move the units near a cut.

    Args:
      hashes: uint64 [n], uniformly distributed, one for each unit.
      labels: int64 [n], the class of each unit.
      records: int64 [n], how many records each unit has, at least 1.
      splits: each split's name and share, adding up to 1.

    Returns:
      int64 [n], positions in `splits`.
    """
    order = np.lexsort((hashes, labels))
    length = records[order]
    _, first, where, units = np.unique(
        labels[order], return_index=True, return_inverse=True, return_counts=True
    )
    end = np.cumsum(length)
    # Read backwards, since the first unit in the order has small leading bits by its selection.
    fraction = (hashes[order[first]].byteswap() / 2.0**64)[where]
    total = np.bincount(where, weights=length)[where]
    point = end - length - (end - length)[first][where] + fraction * length
    codes = np.zeros(len(hashes), np.int64)
    for edge in np.cumsum(list(splits.values()))[:-1]:
        codes[order] += point >= edge * total
    if "train" in splits and (units > 1).any():
        codes[order[first]] = list(splits).index("train")
    return codes


def follow_paths(forced: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Finds the split that paths name: a source's own path, or else another of its unit.

    Args:
      forced: int64 [n], the split that each source's path names, or -1.
      units: uint64 [n], equal for sources of one unit.

    Returns:
      int64 [n], the split; where several paths of a unit name different ones, the others of the
      unit get the one that stands first in the options (usually train). -1 if no path of the unit
      names any.
    """
    is_named = forced >= 0
    if not is_named.any():
        return forced
    named, where = np.unique(units[is_named], return_inverse=True)
    first_split = np.full(len(named), np.iinfo(np.int64).max)
    np.minimum.at(first_split, where, forced[is_named])
    index = np.minimum(np.searchsorted(named, units), len(named) - 1)
    of_unit = np.where(named[index] == units, first_split[index], -1)
    return np.where(is_named, forced, of_unit)
