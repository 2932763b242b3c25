"""A random sample of a folder's files, stratified by size, from one listing.

Each group's file sizes are within a factor of two. A group's mean times its number of files is an
unbiased estimate, and a precise one, since what is stored depends on the file's size.
"""

import collections
import dataclasses
import random
from collections.abc import Iterable

from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import label_of, split_of
from image_pipeline.components.sources.references import ImageRef


@dataclasses.dataclass
class Stratum:
    """Files of similar size, and a random sample of them."""

    files: int = 0
    bytes: int = 0
    sample: list[ImageRef] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Census:
    """What the listing says about all files."""

    classes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    forced_splits: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    strata: dict[int, Stratum] = dataclasses.field(default_factory=dict)

    @property
    def files(self) -> int:
        """All of them."""
        return sum(stratum.files for stratum in self.strata.values())

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(stratum.bytes for stratum in self.strata.values())

    def scale(self, factor: float) -> None:
        """Lets every file stand for so many, where only some of all files were listed."""
        for counts in (self.classes, self.forced_splits):
            for name in counts:
                counts[name] = round(counts[name] * factor)
        for stratum in self.strata.values():
            stratum.files = round(stratum.files * factor)
            stratum.bytes = round(stratum.bytes * factor)


@dataclasses.dataclass(frozen=True, slots=True)
class Sampled:
    """A file of the sample, the number of its group, and how many files it stands for."""

    ref: ImageRef
    stratum: int
    weight: float


def take_census(
    refs: Iterable[ImageRef], options: IngestOptions, sample_size: int, seed: int
) -> Census:
    """Counts the files, and draws from every size group as many as could be needed.

    Each group keeps a reservoir (Vitter 1985, algorithm R), so no list of all files is held.
    """
    census, generator = Census(), random.Random(seed)
    for ref in refs:
        if (label := label_of(ref, options)) is not None:
            census.classes[label] += 1
        if split := split_of(ref, options):
            census.forced_splits[split] += 1
        stratum = census.strata.setdefault(ref.size_bytes.bit_length(), Stratum())
        stratum.files += 1
        stratum.bytes += ref.size_bytes
        if len(stratum.sample) < max(2, sample_size):
            stratum.sample.append(ref)
        elif (place := generator.randrange(stratum.files)) < len(stratum.sample):
            stratum.sample[place] = ref
    for stratum in census.strata.values():
        generator.shuffle(stratum.sample)  # So that its first files are a sample, too.
    return census


def draw_sample(census: Census, sample_size: int) -> list[Sampled]:
    """Chooses the files: a group gets its share of the files and of the bytes, half and half."""
    shares = {
        number: stratum.files / census.files + stratum.bytes / max(1, census.bytes)
        for number, stratum in census.strata.items()
    }
    sample: list[Sampled] = []
    left, shares_left = sample_size, sum(shares.values())
    # Groups with fewer files than their share come first, and leave the rest to the others.
    for number in sorted(shares, key=lambda number: census.strata[number].files / shares[number]):
        stratum = census.strata[number]
        chosen = stratum.sample[: max(2, round(left * shares[number] / shares_left))]
        left, shares_left = left - len(chosen), shares_left - shares[number]
        sample += [Sampled(ref, number, stratum.files / len(chosen)) for ref in chosen]
    return sample
