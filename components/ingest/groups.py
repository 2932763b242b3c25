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


def first_copies(content: np.ndarray) -> np.ndarray:
    """Finds, for each source, the first one with the same content.

    Args:
      content: uint64 [n, 2].

    Returns:
      int64 [n], positions; a source's own position where nothing before it is equal.
    """
    order = np.lexsort((content[:, 1], content[:, 0]))  # stable: equal ones stay in order
    ordered = content[order]
    starts_run = np.ones(len(order), bool)
    starts_run[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    first_of_run = np.maximum.accumulate(np.where(starts_run, np.arange(len(order)), 0))
    copies = np.empty(len(order), np.int64)
    copies[order] = order[first_of_run]
    return copies


def find_conflicts(copies: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Finds sources of the same bytes that do not agree on the label.

    Args:
      copies: as `first_copies` gives them.
      label: int [n].

    Returns:
      int64 [n]: for each source of such a set the first one of it with another label; else -1.
    """
    differs = np.flatnonzero(label != label[copies])
    first_of_set, at = np.unique(copies[differs], return_index=True)
    # Of each set, the first member and the first one that contradicts it.
    contradicts = np.full(len(copies), -1)
    contradicts[first_of_set] = differs[at]
    second = contradicts[copies]
    agrees = label == label[copies]
    return np.where(second == -1, -1, np.where(agrees, second, copies))


class Links:
    """Values that are joined by links between them, directly or through others.

    Only values that have a link are held. Those that are joined are named by one of them: the
    smallest, read from the last byte backwards, because a name's leading bits choose the split, and
    the smallest of many would nearly always choose the first. So a value that is joined to k others
    (or joins parts with k in all) moves those of another split than its own only if it is the
    smallest now: once in k + 1 times. What it is not joined with stays where it is.
    """

    def __init__(self) -> None:
        """Without links."""
        self._joined: np.ndarray = np.empty(
            (2, 0), np.uint64
        )  # each linked value, in order, and its name
        self._new: list[np.ndarray] = []

    def add(self, left: np.ndarray, right: np.ndarray) -> None:
        """Links values: each uint64 [n]."""
        names = [self._find(side) for side in (left, right)]
        self._new.append(np.stack([left, right])[:, names[0] != names[1]])
        if sum(links.shape[1] for links in self._new) > max(_LINKS_AT_ONCE, self._joined.shape[1]):
            self._join()

    def add_near(self, hashes: np.ndarray, table: np.uint64, max_distance: int) -> None:
        """Links hashes that agree on the table's bits and are near enough.

        Args:
          hashes: uint64 [n], distinct.
          table: the bits, as a mask, see `bit_tables`.
          max_distance: how many of the 64 bits may differ.
        """
        hashes = hashes[np.argsort(hashes & table)]
        for near in _near_pairs(hashes, table, max_distance):
            self.add(*hashes[near])

    def find(self, values: np.ndarray) -> np.ndarray:
        """The name of what each value is joined with, which is itself where nothing is."""
        self._join()
        return self._find(values)

    def __bool__(self) -> bool:
        """Whether anything is joined."""
        self._join()
        return bool(self._joined.size)

    def _find(self, values: np.ndarray) -> np.ndarray:
        linked, names = self._joined
        if not len(linked):
            return values
        at = np.minimum(np.searchsorted(linked, values), len(linked) - 1)
        return np.where(linked[at] == values, names[at], values)

    def _join(self) -> None:
        if not sum(links.shape[1] for links in self._new):
            return
        # Most data sets link nothing, and SciPy takes a quarter of a second to import.
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        links = np.concatenate([self._joined, *self._new], axis=1)
        values, numbers = np.unique(links, return_inverse=True)
        ends, count = numbers.reshape(2, -1), len(values)
        # Of type bool: SciPy adds up the values of repeated links, and bool cannot overflow.
        graph = coo_array((np.ones(ends.shape[1], bool), tuple(ends)), (count, count))
        parts = connected_components(graph, directed=False)[1]
        order = np.lexsort((values.byteswap(), parts))
        _, first = np.unique(parts[order], return_index=True)
        self._joined, self._new = np.stack([values, values[order[first]][parts]]), []


def cluster_hashes(hashes: np.ndarray, max_distance: int) -> np.ndarray:
    """Clusters hashes: two within `max_distance` share one, and so does what each is near to.

    Equal hashes are compared once, however many there are. Of the others, only those that agree in
    all bits of a whole table of bits are compared (see `bit_tables`): at a distance of 4, about 21
    of 64. If bits are random, that is n**2 / 300,000 pairs: a million hashes take 2 s. Where half
    of the bits are the same in all hashes, it is every pair: 30,000 of them take 4 s. Memory grows
    with n only: about 80 bytes a hash.

    Args:
      hashes: uint64 [n].
      max_distance: how many of the 64 bits may differ.

    Returns:
      int64 [n], the cluster's number: 0, 1, 2, … in the order of their smallest hashes.
    """
    distinct, where = np.unique(hashes, return_inverse=True)
    links = Links()
    for table in bit_tables(max_distance):
        links.add_near(distinct, table, max_distance)
    _, first, name = np.unique(links.find(distinct), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[name][where]


def bit_tables(max_distance: int) -> Iterator[np.uint64]:
    """Masks of bits such that two hashes within the distance agree on one whole mask at least.

    None for a distance of 0, at which hashes are equal.

    The pigeonhole principle (Manku, Jain, Das Sarma: Detecting near-duplicates for web crawling,
    WWW 2007): bits are cut into d + 2 bands, d differing bits touch d of them at most, so two
    bands remain. Masks of two bands out of d + 2 have nearly twice the bits of one out of d + 1,
    so that far fewer pairs agree by chance.
    """
    if not max_distance:
        return
    edges = np.arange(max_distance + 3) * HASH_BITS // (max_distance + 2)
    bands = [sum(1 << bit for bit in range(*edge)) for edge in itertools.pairwise(edges.tolist())]
    for first, second in itertools.combinations(bands, 2):
        yield np.uint64(first | second)


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
        # All pairs are compared, in blocks of bounded memory.
        run = hashes[first:last]
        rows = max(1, _PAIRS_AT_ONCE // len(run))
        for start in range(0, len(run), rows):
            distance = np.bitwise_count(run[start : start + rows, None] ^ run[None, start:])
            pairs = np.stack(np.nonzero(distance <= max_distance))
            yield pairs[:, pairs[0] < pairs[1]] + (start + first)


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


class Strata:
    """Assigns each unit to a split so that every class gets its exact share in each.

    The units of a class are laid end to end in the order of their hashes, each as long as it has
    records, and the line is cut at the splits' cumulative shares. A unit belongs where one point of
    it lies: at the same fraction of its length for all units of a class. That fraction comes from
    the hash of the class's first unit, so that shares which are not whole numbers of records are
    rounded up in some classes and down in others (systematic sampling with a random start), and
    many small classes do not all round the same way. A class's first unit is in `train`, if there
    is such a split, so that no class is evaluated that was never learned; unless all classes have
    one unit, and nothing would be left to evaluate with.

    Hence the records of a class in a split differ from its share by less than the class's largest
    unit: by less than one record where units are single images. In return, unlike
    `assign_splits`, adding data may move the units near a cut.

    Units come in ranges of their hashes: all are counted first, then each is assigned, in order.
    """

    def __init__(self, count: int):
        """Without units of so many classes."""
        self._first = np.full(count, np.iinfo(np.uint64).max)  # The class's first hash.
        self._units, self._records, self._done = np.zeros((3, count), np.int64)

    def count(self, hashes: np.ndarray, labels: np.ndarray, records: np.ndarray) -> None:
        """Counts units.

        Args:
          hashes: uint64 [n], uniformly distributed, one for each unit.
          labels: int [n], the class of each unit.
          records: int64 [n], how many records each unit has, at least 1.
        """
        np.minimum.at(self._first, labels, hashes)
        np.add.at(self._units, labels, 1)
        np.add.at(self._records, labels, records)

    def assign(
        self,
        hashes: np.ndarray,
        labels: np.ndarray,
        records: np.ndarray,
        splits: Mapping[str, float],
    ) -> np.ndarray:
        """Assigns units whose hashes are above all that were assigned before.

        Args:
          hashes: as in `count`.
          labels: as in `count`.
          records: as in `count`.
          splits: each split's name and share, adding up to 1.

        Returns:
          int64 [n], positions in `splits`.
        """
        order = np.lexsort((hashes, labels))
        length, of = records[order], labels[order]
        _, first, where = np.unique(of, return_index=True, return_inverse=True)
        begin = np.cumsum(length) - length
        # Read backwards, since the first unit in the order has small leading bits by its selection.
        fraction = self._first[of].byteswap() / 2.0**64
        point = begin - begin[first][where] + self._done[of] + fraction * length
        codes = np.zeros(len(hashes), np.int64)
        for edge in np.cumsum(list(splits.values()))[:-1]:
            codes[order] += point >= edge * self._records[of].astype(float)
        if "train" in splits and (self._units > 1).any():
            codes[hashes == self._first[labels]] = list(splits).index("train")
        np.add.at(self._done, labels, records)
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
