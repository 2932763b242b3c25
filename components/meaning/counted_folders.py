"""Images counted by their folders while these are listed, in bounded memory."""

import collections
import itertools
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping

from image_pipeline.components.meaning.masks import ENDINGS
from image_pipeline.components.meaning.path_patterns import path_of
from image_pipeline.components.sources.file_names import split_named
from image_pipeline.components.sources.frames import VIDEO_ENDINGS
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.references import ImageRef

# In the order in which they are asked: files of others are then no images. Those that no decoder
# reads are laid out as others are, and get the same message.
_READ = (ENDINGS, frozenset((".wav", ".flac")), VIDEO_ENDINGS, frozenset((".npy",)))
_KINDS = (*_READ, IMAGE_ENDINGS.difference(*_READ), ("",))
_TABLES = ("csv", "tsv", "jsonl", "parquet")
TEXTS = (".txt", ".xml", ".json", ".mat")
"""Endings of what may be the annotations of images; MATLAB's are not texts, and not read."""
_MOST_TABLES, _MOST_TEXTS = 5, 20
_MOST_FOLDERS, _MOST_NAMES = 200_000, 20_000  # that are held in memory; of more, a sample

Parts = tuple[str, ...]
"""The folders that a path has."""


class Tally:
    """Files counted by their folders while they are listed, and some of their names.

    Attributes:
      tables: some of the files that may say more of the images.
      some_texts: the first of the files that end as annotations do, see `TEXTS`.
      is_stated: whether the source itself says what the images are.
    """

    def __init__(self, paths: Iterable[str] = ()):
        """Counts paths, relative to the folder, with slashes."""
        self._counts: tuple[collections.Counter[str], ...] = tuple(
            collections.Counter() for _ in _KINDS
        )
        self._names: list[str] = []
        self._one_in_folders = self._one_in_names = 1
        self.tables: list[str] = []
        self._texts, self.some_texts = 0, list[str]()
        self.is_stated = False
        for path in paths:
            self.add(path)

    def watch(self, refs: Iterable[ImageRef]) -> Iterator[ImageRef]:
        """Passes references on, and counts those that can be read."""
        for ref in refs:
            if ref.problem is None:
                self.add(path_of(ref))
            self.is_stated = self.is_stated or ref.annotations is not None
            yield ref

    def add(self, path: str) -> None:
        """Counts a file."""
        folder, _, name = path.rpartition("/")
        kind = _kind_of(name)
        if kind is None:
            if name.lower().endswith(TEXTS):
                self._texts += 1
                if len(self.some_texts) < _MOST_TEXTS:
                    self.some_texts.append(path)
            if len(self.tables) < _MOST_TABLES and _may_say_more(name):
                self.tables.append(path)
            return
        if self._one_in_folders == 1 or sample_hash(folder) % self._one_in_folders == 0:
            self._counts[kind][folder] += 1
            if sum(map(len, self._counts)) > _MOST_FOLDERS:
                self._thin_folders()
        if self._one_in_names == 1 or sample_hash(path) % self._one_in_names == 0:
            self._names.append(path)
            if len(self._names) > _MOST_NAMES:
                self._one_in_names *= 2
                self._names = [
                    each for each in self._names if not sample_hash(each) % self._one_in_names
                ]

    def _thin_folders(self) -> None:
        self._one_in_folders *= 2
        for counts in self._counts:
            for folder in [each for each in counts if sample_hash(each) % self._one_in_folders]:
                del counts[folder]

    @property
    def kind(self) -> int:
        """Which of `_KINDS` the images are: files of others are none."""
        return next((number for number, counts in enumerate(self._counts) if counts), 0)

    def texts(self) -> int:
        """How many files may be annotations: they end as these do, or not at all beside images."""
        return self._texts + self._counts[-1].total() * (self.kind < len(_KINDS) - 1)

    def folders(self) -> dict[Parts, int]:
        """The number of images in each folder."""
        counts = self._counts[self.kind]
        return {tuple(filter(None, folder.split("/"))): counts[folder] for folder in counts}

    def names(self) -> list[str]:
        """Paths of images; of many, a sample that does not depend on their order."""
        kind = self.kind
        return [path for path in self._names if _kind_of(path.rpartition("/")[2]) == kind]


def list_images_of(paths: Collection[str]) -> list[str]:
    """The paths that end as images do; else as sounds, videos or arrays; or not at all, as ids."""
    kinds = [_kind_of(path.rpartition("/")[2]) for path in paths]
    own = min((kind for kind in kinds if kind is not None), default=None)
    return [
        path for path, kind in zip(paths, kinds, strict=True) if kind is not None and kind == own
    ]


def _kind_of(name: str) -> int | None:
    dot = name.rfind(".")
    ending = name[dot:].lower() if dot > 0 else ""
    return _KIND_OF_ENDING.get(ending)


def _may_say_more(name: str) -> bool:
    """Whether a file may be a table of images, or a list of those of a split."""
    stem, _, ending = name.lower().rpartition(".")
    is_list = ending in ("txt", "json") and split_named(stem) is not None
    return is_list or ending in _TABLES


_KIND_OF_ENDING = {ending: kind for kind, endings in enumerate(_KINDS) for ending in endings}


def sample_hash(text: str) -> int:
    """A number by which a sample is taken that does not depend on the order."""
    return zlib.crc32(text.encode(errors="surrogateescape"))


class Level:
    """Folders by their first parts, once what all of them begin with is taken off.

    Attributes:
      prefix: what all begin with.
      total: how many images there are.
      firsts: how many are in each first folder; others lie beside these.
    """

    def __init__(self, folders: Mapping[Parts, int]):
        """Takes the number of images in each folder."""
        first, last = min(folders, default=()), max(folders, default=())
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        self.prefix = first[: len(list(same))]
        self.total = sum(folders.values())
        self._below: dict[str, dict[Parts, int]] = {}
        for parts, count in sorted(folders.items()):
            if top := parts[len(self.prefix) : len(self.prefix) + 1]:
                below = self._below.setdefault(top[0], {})
                below[parts[len(self.prefix) + 1 :]] = count
        self.firsts = {top: sum(below.values()) for top, below in self._below.items()}
        self._levels: dict[str, Level] = {}

    def inside(self, top: str) -> "Level":
        """The folders in a first folder."""
        if top not in self._levels:
            self._levels[top] = Level(self._below[top])
        return self._levels[top]

    def merge(self, tops: Iterable[str]) -> "Level":
        """The folders in some first folders, as if they were in one."""
        counts = collections.Counter[Parts]()
        for top in tops:
            counts.update(self._below[top])
        return Level(counts)

    @property
    def start(self) -> str:
        """The beginning of patterns of paths below the prefix."""
        return "".join(f"{re.escape(part)}/" for part in self.prefix)

    def path(self, top: str) -> str:
        """The path of a first folder."""
        return "/".join((*self.prefix, top))

    def split_pattern(self, splits: Iterable[str], between: str = "") -> str:
        """The pattern of splits that are first folders, or between which and these others are."""
        return f"{self.start}{between}(?P<split>{'|'.join(map(re.escape, splits))})/"
