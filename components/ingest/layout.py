"""What the folders of images mean: which are splits, which are classes, and which are neither.

A folder says nothing else of its images. It is understood once, when it is listed; what was
inferred becomes options, as if a person had written them, and is said. Where several meanings are
possible, nothing is chosen.
"""

import collections
import dataclasses
import itertools
import json
import re
import shlex
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.label_map import find_label_map
from image_pipeline.components.ingest.masks import (
    ENDINGS,
    Masks,
    explain_masks,
    find_masks,
    is_mask_folder,
)
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.path_patterns import path_of
from image_pipeline.components.labels.masks import MaskOptions
from image_pipeline.components.sources.file_names import SPLIT_NAMES, split_named
from image_pipeline.components.sources.frames import VIDEO_ENDINGS
from image_pipeline.components.sources.references import ImageRef

FIRST_FOLDER = r"(?P<label>[^/]+)/.+"
"""The usual pattern of labels: a class is the first folder."""
_ALL_OF_IT = r"(?P<label>[^/]+)/.*"  # The same, said by a person: nothing is inferred then.

# ImageNet's synset; a name and a number, as in cat.12.jpg; all before the first underscore.
_IN_NAMES = (
    r"(?P<label>n\d{8})_.+",
    r"(?P<label>[^/]*?[^/\d._ -])[._ -]*\d+\.[^./]+$",
    r"(?P<label>[^/_]+)_.+",
)
_KINDS = (ENDINGS, frozenset((".wav", ".flac")), VIDEO_ENDINGS, frozenset((".npy",)), ("",))
# Folders that hold sets, not things: no class is called so, unless somebody says it.
_CONTAINERS = {
    *("data", "dataset", "datasets", "images", "imgs", "img", "image", "pictures", "photos"),
    *("jpegimages", "split", "splits", "results", "result", "output", "outputs", *SPLIT_NAMES),
}
_PARTS = {"part", "batch", "chunk", "shard", "fold", "volume", "vol", "folder", "archive", "zip"}
_GENERIC = re.compile(r"(?:part|batch|day|week|month|session|fold|set|group|chunk)?[\W\d_]*")
_MANY_TIMES = 3  # as many folders above as there are names below: patients rather than classes
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_TABLES = ("csv", "tsv", "jsonl", "parquet")
_ENOUGH = 0.9  # of the images must fit what is inferred
_MOST_FOLDERS, _MOST_NAMES = 200_000, 20_000  # that are held in memory; of more, a sample
_MOST_SHOWN = 6
_MOST_PARTS = 3  # that are named to be given alone
_SPLITS = ("train", "eval", "test")
_MOST_TABLES = 5

_Parts = tuple[str, ...]


class Tally:
    """Files counted by their folders while they are listed, and some of their names.

    Attributes:
      tables: some of the files that may say more of the images.
      is_said: whether the source itself says what the images are.
    """

    def __init__(self, paths: Iterable[str] = ()):
        """Counts paths, relative to the folder, with slashes."""
        self._counts: tuple[collections.Counter[str], ...] = tuple(
            collections.Counter() for _ in _KINDS
        )
        self._names: list[str] = []
        self._one_in_folders = self._one_in_names = 1
        self.tables: list[str] = []
        self.is_said = False
        for path in paths:
            self.add(path)

    def watch(self, refs: Iterable[ImageRef]) -> Iterator[ImageRef]:
        """Passes references on, and counts those that can be read."""
        for ref in refs:
            if ref.problem is None:
                self.add(path_of(ref))
            self.is_said = self.is_said or ref.annotations is not None
            yield ref

    def add(self, path: str) -> None:
        """Counts a file."""
        folder, _, name = path.rpartition("/")
        kind = _kind_of(name)
        if kind is None:
            if len(self.tables) < _MOST_TABLES and _may_say_more(name):
                self.tables.append(path)
            return
        if self._one_in_folders == 1 or _hash(folder) % self._one_in_folders == 0:
            self._counts[kind][folder] += 1
            if sum(map(len, self._counts)) > _MOST_FOLDERS:
                self._thin_folders()
        if self._one_in_names == 1 or _hash(path) % self._one_in_names == 0:
            self._names.append(path)
            if len(self._names) > _MOST_NAMES:
                self._one_in_names *= 2
                self._names = [each for each in self._names if not _hash(each) % self._one_in_names]

    def _thin_folders(self) -> None:
        self._one_in_folders *= 2
        for counts in self._counts:
            for folder in [each for each in counts if _hash(each) % self._one_in_folders]:
                del counts[folder]

    @property
    def kind(self) -> int:
        """Which of `_KINDS` the images are: files of others are none."""
        return next((number for number, counts in enumerate(self._counts) if counts), 0)

    def folders(self) -> dict[_Parts, int]:
        """The number of images in each folder."""
        counts = self._counts[self.kind]
        return {tuple(filter(None, folder.split("/"))): counts[folder] for folder in counts}

    def names(self) -> list[str]:
        """Paths of images; of many, a sample that does not depend on their order."""
        return [path for path in self._names if _kind_of(path.rpartition("/")[2]) == self.kind]


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


def _hash(text: str) -> int:
    return zlib.crc32(text.encode(errors="surrogateescape"))


CLASS_FOLDERS, SPLIT_FOLDERS = "class folders", "split folders"
IN_FILE_NAMES, NO_CLASSES = "class in the file name", "no classes"
WITH_MASKS = "image/mask pairs"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meaning:
    """What folders mean, as options of ingest would say it.

    Attributes:
      kind: in a few words.
      label_pattern: that finds the class in a path; None if nothing names classes.
      split_pattern: that finds the split; None if nothing names splits.
      splits: folders that it finds, each with the pipeline's name for its split.
      leave_out: folders whose images have no place in this.
      masks: those of the images, if that is what they are for.
      said: what was inferred, a sentence each.
    """

    kind: str
    label_pattern: str | None = FIRST_FOLDER
    split_pattern: str | None = None
    splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    leave_out: tuple[str, ...] = ()
    masks: Masks | None = None
    said: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Those that say the same, but for the defaults."""
        options: dict[str, Any] = {"label_pattern": self.label_pattern}
        if self.split_pattern is not None:
            names = choose_eval(self.splits)
            options |= {"split_pattern": self.split_pattern, "splits": share_splits(names)}
            options["split_names"] = {each: name for each, name in names.items() if each != name}
        return options | ({"leave_out": self.leave_out} if self.leave_out else {})


@dataclasses.dataclass(frozen=True)
class Choice:
    """One thing that a folder may mean.

    Attributes:
      words: for messages and questions.
      meaning: of the whole folder; None where a part of it is to be given instead.
      images: that part; "" for the whole folder.
    """

    words: str
    meaning: Meaning | None = None
    images: str = ""

    def say(self, images: str) -> str:
        """How a person says it, on the command line."""
        if self.meaning is None:
            return f"give --images {shlex.quote(files.join(images, self.images))}"
        dumped = ((name, json.dumps(value)) for name, value in self.meaning.options().items())
        return f"set {' '.join(shlex.quote(f'ingest.{name}={value}') for name, value in dumped)}"


class UnclearLayout(UserError):
    """A folder may mean several things; see `choices`."""

    def __init__(self, images: str, found: str, choices: Sequence[Choice]):
        """Names what was found, and each meaning with what says it."""
        ways = "; ".join(f"for {each.words}, {each.say(images)}" for each in choices)
        super().__init__(f"{images!r} may mean several things: {found}. Say which: {ways}.")
        self.found, self.choices = found, tuple(choices)


def understand(
    images: str, options: IngestOptions, tally: Tally, list_paths: Callable[[], Iterable[str]]
) -> tuple[IngestOptions, tuple[str, ...]]:
    """The options with what the folders say of labels and splits, unless the options do.

    Args:
      images: what was given, for messages.
      options: of ingest.
      tally: of its files.
      list_paths: gives the paths of all files again.

    Returns:
      The options, and what was inferred, a sentence each.

    Raises:
      UnclearLayout: if several meanings are possible.
      UserError: if there are masks, and nothing says what they are for.
    """
    if tally.is_said:
        return options, ()
    if options.masks is not None or options.label_pattern is None:
        meaning = _find_splits_alone(images, options, tally, list_paths)
    elif options.label_pattern != FIRST_FOLDER:
        return options, _say_unused(tally, options)
    else:
        meaning = find_meaning(images, tally, list_paths)
    if meaning.masks is not None:
        masks, told = take_label_map(images, meaning.masks, list_paths())
        return options.model_copy(update={"masks": masks}), (told,)
    if meaning.kind == IN_FILE_NAMES:
        unlabelled = dataclasses.replace(meaning, label_pattern=None)
        named, none = Choice("the classes there", meaning), Choice("no labels", unlabelled)
        raise UnclearLayout(images, meaning.said[0], (named, none))
    update: dict[str, Any] = {"label_pattern": meaning.label_pattern}
    said = (*meaning.said, *_say_tables(tally) * (meaning.label_pattern is not None))
    if meaning.leave_out:
        update["leave_out"] = tuple(dict.fromkeys((*options.leave_out, *meaning.leave_out)))
    if meaning.splits and options.split_pattern is None:
        update |= _take_splits(images, options, meaning)
    return options.model_copy(update=update), said


def _find_splits_alone(
    images: str, options: IngestOptions, tally: Tally, list_paths: Callable[[], Iterable[str]]
) -> Meaning:
    """The splits of images that have no labels by folders, or masks, as the options say."""
    if options.masks is None and (masks := find_masks(list_paths)):
        raise UserError(explain_masks(images, masks))
    pattern, splits = find_split_folders(tally.folders())
    said = (f"{_say_splits(splits)} are taken as splits",) if splits else ()
    return Meaning(
        kind=NO_CLASSES,
        label_pattern=options.label_pattern,
        split_pattern=pattern,
        splits=splits,
        said=said if options.split_pattern is None else (),
    )


def take_label_map(images: str, masks: Masks, paths: Iterable[str]) -> tuple[MaskOptions, str]:
    """The options of masks whose colours a file names, and what was understood.

    Raises:
      UserError: if there is no such file: what masks are for is to be said.
    """
    found = None if masks.templates is None else find_label_map(images, paths)
    if found is None or masks.templates is None:
        raise UserError(explain_masks(images, masks))
    (name, colors), (image, mask) = found, masks.templates
    options = MaskOptions.model_validate({"images": image, "masks": mask, "classes": colors})
    said = (
        f"{mask} are taken as masks of {image}, with the classes of {name}: {_list_names(colors)}"
    )
    return options, said


def _take_splits(images: str, options: IngestOptions, meaning: Meaning) -> dict[str, Any]:
    """The options of splits that folders name, beside those that are given."""
    found = meaning.options()
    if options.splits == IngestOptions().splits and not options.split_names:
        return {name: found[name] for name in ("split_pattern", "splits", "split_names")}
    named = {**meaning.splits, **options.split_names}
    if "test" not in options.splits:
        named = choose_eval(named)
    if unknown := sorted(set(named.values()) - options.splits.keys()):
        raise UserError(
            f"Folders of {images!r} are the split {unknown[0]!r}, but ingest.splits has "
            f"{', '.join(options.splits)} only; add it there, or name another by "
            "ingest.split_names."
        )
    return {"split_pattern": meaning.split_pattern, "split_names": named}


def choose_eval(named: Mapping[str, str]) -> dict[str, str]:
    """Training needs a split to evaluate on: a test split, if there is no other."""
    if "eval" in named.values():
        return dict(named)
    return {folder: "eval" if name == "test" else name for folder, name in named.items()}


def share_splits(named: Mapping[str, str]) -> dict[str, float]:
    """The shares of splits that folders name: for images, if any, that are in none of these."""
    splits = [name for name in _SPLITS if name in named.values()]
    shares = {2: (0.9, 0.1), 3: (0.8, 0.1, 0.1)}.get(len(splits), (1 / len(splits),) * len(splits))
    return dict(zip(splits, shares, strict=True))


def _say_unused(tally: Tally, options: IngestOptions) -> tuple[str, ...]:
    """Whether folders name splits that the options, which say what the labels are, do not use."""
    if options.split_pattern is not None:
        return ()
    pattern, splits = find_split_folders(tally.folders())
    if pattern is None:
        return ()
    return (
        f"{_list_folders(splits)} are not taken as splits, for ingest.label_pattern is set and "
        f"ingest.split_pattern is not; {pattern!r} would take them",
    )


def _say_tables(tally: Tally) -> tuple[str, ...]:
    """What lies beside the images, and is not read, though it may say what they are."""
    if not tally.tables:
        return ()
    names = _list_names(tally.tables)
    return (f"{names}: not read, for folders name the classes; give it as --images to read it",)


def find_meaning(
    images: str, tally: Tally, list_paths: Callable[[], Iterable[str]] | None = None
) -> Meaning:
    """What the folders of images mean; raises UnclearLayout, see `understand`."""
    masks = find_masks(list_paths or tally.names)
    if masks is not None:
        return _judge_masks(images, tally, masks)
    meaning = _find_meaning(images, tally.folders(), tally.names())
    if meaning.kind == NO_CLASSES and tally.tables:
        tables = [Choice(f"what {table} says", images=table) for table in tally.tables]
        unlabelled = dataclasses.replace(meaning, label_pattern=None)
        found = f"no folder names classes, and {_list_names(tally.tables)} may"
        raise UnclearLayout(images, found, (*tables, Choice("no labels", unlabelled)))
    return meaning


def _judge_masks(images: str, tally: Tally, masks: Masks) -> Meaning:
    """Classes beside which a few masks lie; else, what has masks is for segmentation."""
    folders = tally.folders()
    own = {parts: n for parts, n in folders.items() if not any(map(is_mask_folder, parts))}
    total, pairs = sum(own.values()), Meaning(kind=WITH_MASKS, label_pattern=None, masks=masks)
    if 2 * masks.count >= total:
        return pairs
    try:
        meaning = _find_meaning(images, own, tally.names())
    except UnclearLayout:
        return pairs
    if meaning.kind not in (CLASS_FOLDERS, SPLIT_FOLDERS):
        return pairs
    tops = sorted({_first_mask_folder(parts) for parts in folders.keys() - own.keys()})
    said = (
        f"{_list_folders(tops)}: masks of {masks.count:,} of {total:,} images are left out; "
        "ingest.masks would take them, for segmentation"
    )
    if not tops:
        few = f"only {masks.count:,} of {total:,} images have a file called like their mask"
        said = f"{few}: {masks.mask} is taken as an image (ingest.masks would take it as a mask)"
    return dataclasses.replace(
        meaning,
        leave_out=(*meaning.leave_out, *(f"{top}/" for top in tops)),
        said=(*meaning.said, said),
    )


def _first_mask_folder(parts: _Parts) -> str:
    number = next(number for number, part in enumerate(parts) if is_mask_folder(part))
    return "/".join(parts[: number + 1])


def find_split_folders(folders: Mapping[_Parts, int]) -> tuple[str | None, dict[str, str]]:
    """Where folders at one depth are called train, val, test: a pattern, and their splits."""
    for depth in range(max(map(len, folders), default=0)):
        named: collections.Counter[str] = collections.Counter()
        for parts, count in folders.items():
            if len(parts) > depth:
                named[parts[depth]] += count
        splits = _find_splits(named)
        if splits and len(splits) == len(named):
            pattern = f"(?:[^/]+/){{{depth}}}(?P<split>{'|'.join(map(re.escape, splits))})/"
            return pattern.removeprefix("(?:[^/]+/){0}"), splits
    return None, {}


class _Level:
    """Folders by their first parts, once what all of them begin with is taken off.

    Attributes:
      prefix: what all begin with.
      total: how many images there are.
      firsts: how many are in each first folder; others lie beside these.
    """

    def __init__(self, folders: Mapping[_Parts, int]):
        """Takes the number of images in each folder."""
        first, last = min(folders, default=()), max(folders, default=())
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        self.prefix = first[: len(list(same))]
        self.total = sum(folders.values())
        self._below: dict[str, dict[_Parts, int]] = {}
        for parts, count in sorted(folders.items()):
            if top := parts[len(self.prefix) : len(self.prefix) + 1]:
                below = self._below.setdefault(top[0], {})
                below[parts[len(self.prefix) + 1 :]] = count
        self.firsts = {top: sum(below.values()) for top, below in self._below.items()}
        self._levels: dict[str, _Level] = {}

    def inside(self, top: str) -> "_Level":
        """The folders in a first folder."""
        if top not in self._levels:
            self._levels[top] = _Level(self._below[top])
        return self._levels[top]

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


def _find_meaning(images: str, folders: Mapping[_Parts, int], names: Sequence[str]) -> Meaning:
    level = _Level(folders)
    if splits := _find_splits(level.firsts):
        return _split_folders(images, level, splits, names)
    if not level.firsts:  # One folder, or none, holds all images.
        return _one_folder(level, names)
    _check_containers(images, level)
    label_pattern = f"{level.start}{FIRST_FOLDER}"
    classes = _list_names(level.firsts)
    if splits := _find_splits_below(level):
        told = f"{_say_splits(splits)} are taken as splits, the folders above them as classes: "
        return Meaning(
            kind=SPLIT_FOLDERS,
            label_pattern=label_pattern,
            split_pattern=level.split_pattern(splits, "[^/]+/"),
            splits=splits,
            said=(f"{told}{classes}",),
        )
    _check_depth(images, level)
    if sum(level.firsts.values()) < _ENOUGH * level.total:
        return Meaning(kind=NO_CLASSES)  # Most images are in no class folder.
    whole = f"{'/'.join(level.prefix)}/ holds all images; the folders in it are taken as classes: "
    said = (f"{whole}{classes}",) if level.prefix else ()
    return Meaning(kind=CLASS_FOLDERS, label_pattern=label_pattern, said=said)


def _find_splits(firsts: Mapping[str, int]) -> dict[str, str]:
    """The folders that are splits, if most images are in such."""
    found = {folder: name for folder in firsts if (name := split_named(folder)) is not None}
    covered = sum(firsts[folder] for folder in found)
    is_level = "train" in found.values() and len(set(found.values())) > 1
    is_most = 2 * covered >= sum(firsts.values()) and len(firsts) <= 2 * len(found)
    return _order(found) if is_level and is_most else {}


def _order(splits: Mapping[str, str]) -> dict[str, str]:
    """Training's first."""
    return dict(sorted(splits.items(), key=lambda item: _SPLITS.index(item[1])))


def _find_splits_below(level: _Level) -> dict[str, str]:
    """The split folders in each class folder."""
    seconds: collections.Counter[str] = collections.Counter()
    for top in level.firsts:
        inside = level.inside(top)
        seconds.update(inside.firsts or {name: inside.total for name in inside.prefix[:1]})
    splits = {name: split for name in seconds if (split := split_named(name)) is not None}
    covered = sum(seconds[name] for name in splits)
    is_level = "train" in splits.values() and len(set(splits.values())) > 1
    return _order(splits) if is_level and covered >= _ENOUGH * level.total else {}


def _split_folders(
    images: str, level: _Level, splits: Mapping[str, str], names: Sequence[str]
) -> Meaning:
    """Folders of splits, with class folders in them, perhaps some levels below.

    Those without classes beside others that have some are no use to training, and are left out.
    """
    # What splits are called like, too, as seg_train and seg_pred, says nothing of masks.
    says_masks = not any(map(is_mask_folder, splits))
    own = [t for t in level.firsts if t in splits or not (says_masks and is_mask_folder(t))]
    inside = {top: level.inside(top) for top in own}
    labelled = {top: (below.prefix, below.firsts) for top, below in inside.items() if below.firsts}
    known = {name for _, found in labelled.values() for name in found}
    for top, below in inside.items():  # Of one class only, as where all are good ones.
        if top not in labelled and known.intersection(below.prefix):
            at = next(number for number, part in enumerate(below.prefix) if part in known)
            labelled[top] = below.prefix[:at], {below.prefix[at]: below.total}
    if unknown := [top for top in labelled if top not in splits]:
        raise _unclear_parts(images, level, splits, unknown)
    classes: set[str] = set()
    label_pattern: str | None
    if labelled:
        kind, label_pattern = SPLIT_FOLDERS, f"{level.start}[^/]+/{FIRST_FOLDER}"
        if any(between for between, _ in labelled.values()):
            ways = ("/".join(map(re.escape, (top, *labelled[top][0]))) for top in labelled)
            label_pattern = f"{level.start}(?:{'|'.join(ways)})/{FIRST_FOLDER}"
        classes, told = classes.union(*(f for _, f in labelled.values())), "the folders in them"
    else:
        kind, label_pattern, told = IN_FILE_NAMES, None, "the beginnings of their files' names"
        for top in splits:
            beginning = f"{level.path(top)}/"
            own_names = [name for name in names if name.startswith(beginning)]
            pattern, found = _pattern_in_names(own_names, f"{level.start}[^/]+/(?:[^/]+/)*")
            if pattern is not None and label_pattern in (None, pattern):
                label_pattern, labelled[top] = pattern, ((), found)
                classes.update(found)
    kept = {top: splits[top] for top in splits if top in labelled} or dict(splits)
    is_split = len(set(kept.values())) > 1
    taken = f"{_say_splits(kept)} are taken as splits" if is_split else _list_folders(kept)
    said = [f"{taken}, {told} as classes: {_list_names(sorted(classes))}"]
    if label_pattern is None:
        kind, label_pattern = NO_CLASSES, f"{level.start}[^/]+/{FIRST_FOLDER}"
        said = [f"{taken}; nothing in them names classes"]
    if others := [top for top in level.firsts if top not in kept]:
        count = sum(level.firsts[top] for top in others)
        what = f"{count:,} images of no class are left out (ingest.leave_out)"
        if not set(others).intersection(own):
            what = f"{count:,} masks are left out; ingest.masks would take them, for segmentation"
        said.append(f"{_list_folders(others)}: {what}")
    return Meaning(
        kind=kind,
        label_pattern=label_pattern,
        split_pattern=level.split_pattern(kept) if is_split else None,
        splits=kept if is_split else {},
        leave_out=tuple(f"{level.path(top)}/" for top in others),
        said=tuple(said),
    )


def _unclear_parts(
    images: str, level: _Level, splits: Mapping[str, str], unknown: Sequence[str]
) -> UnclearLayout:
    """The error of folders beside splits that have classes, too."""
    alone = Meaning(
        kind=SPLIT_FOLDERS,
        label_pattern=f"{level.start}[^/]+/{FIRST_FOLDER}",
        split_pattern=level.split_pattern(splits),
        splits=splits,
        leave_out=tuple(f"{level.path(top)}/" for top in unknown),
    )
    named, others = _list_folders(splits), _list_folders(unknown)
    return UnclearLayout(
        images,
        f"{named} are splits, and {others} beside them have classes, too",
        [
            Choice(f"{named} alone", alone),
            Choice(f"all, with {others} shared out", dataclasses.replace(alone, leave_out=())),
        ],
    )


def _one_folder(level: _Level, names: Sequence[str]) -> Meaning:
    """All images in one folder, which is no class if it is called as containers are."""
    pattern, found = _pattern_in_names(names, level.start)
    if pattern is not None:
        said = f"the beginnings of files' names are taken as classes: {_list_names(sorted(found))}"
        return Meaning(kind=IN_FILE_NAMES, label_pattern=pattern, said=(said,))
    if not level.prefix:
        return Meaning(kind=NO_CLASSES)
    if _is_container(level.prefix[-1]):
        return Meaning(kind=NO_CLASSES, label_pattern=f"{level.start}{FIRST_FOLDER}")
    said = (
        f"{level.prefix[0]}/ holds all images, and is taken as their only class; for images "
        "without labels, set ingest.label_pattern=null"
    )
    return Meaning(kind=NO_CLASSES, said=(said,))


def _is_container(folder: str) -> bool:
    words = [word.lower() for word in _WORD.findall(folder)]
    return words != [] and all(word in _CONTAINERS for word in words)


def _find_containers(level: _Level) -> list[str]:
    """First folders that hold sets: all of them, if they are the parts of one."""
    bare = {re.sub(r"[\W\d_]+", " ", top) for top in level.firsts}
    words = {word.lower() for top in bare for word in _WORD.findall(top)}
    if len(bare) == 1 and words & (_CONTAINERS | _PARTS):
        return list(level.firsts)
    siblings = set(level.firsts)
    return [
        top
        for top in level.firsts
        # A class may be called `train`, and then has no class folders in it.
        if (_is_container(top) and (level.inside(top).firsts or not split_named(top)))
        or len(siblings.intersection(level.inside(top).firsts)) > 1
    ]


def _pattern_in_names(
    names: Sequence[str], start: str
) -> tuple[str | None, collections.Counter[str]]:
    """A pattern of files' names that gives classes of several images."""
    for pattern in _IN_NAMES:
        matches = (re.match(f"{start}{pattern}", path) for path in names)
        classes = collections.Counter(found["label"] for found in matches if found)
        # A synset is a class even with a single image; other words must repeat.
        repeats = pattern == _IN_NAMES[0] or classes.total() >= 2 * len(classes)
        if len(classes) >= 2 and repeats and classes.total() >= _ENOUGH * len(names):
            return f"{start}{pattern}", classes
    return None, collections.Counter()


def _check_containers(images: str, level: _Level) -> None:
    """Refuses folders of which some are called as those of whole sets are, or hold the others'."""
    containers = _find_containers(level)
    if not containers or len(level.firsts) < 2:
        return
    whole = Meaning(kind=CLASS_FOLDERS, label_pattern=f"{level.start}{_ALL_OF_IT}")
    choices = [
        Choice(f"what is in {top}/ ({_list_names(sorted(inside))})", images=level.path(top))
        for top in containers[:_MOST_PARTS]
        if (inside := level.inside(top).firsts)
    ]
    others = [top for top in level.firsts if top not in containers]
    if len(others) > 1:
        left_out = tuple(f"{level.path(top)}/" for top in containers)
        alone = dataclasses.replace(whole, leave_out=left_out)
        choices.append(Choice(f"the classes {_list_names(others)} alone", alone))
    choices.append(Choice(f"the classes {_list_names(level.firsts)}", whole))
    unlabelled = dataclasses.replace(whole, label_pattern=None)
    choices += [Choice("no labels", unlabelled)] * (not others)
    found = f"it has the folders {_list_folders(level.firsts)}, and {_list_folders(containers)} "
    is_one = "is hardly a class" if len(containers) == 1 else "are hardly classes"
    raise UnclearLayout(images, f"{found}{is_one}", choices)


def _check_depth(images: str, level: _Level) -> None:
    """Refuses two levels of folders that may both be the classes.

    So are folders that are called alike in several others, as in domain/class, and kinds of kinds,
    as in animals/cat. Numbers and dates in class folders are neither, unless they are in all of
    very many.
    """
    insides = [level.inside(top) for top in level.firsts]
    above, counts = collections.Counter[str](), collections.Counter[str]()
    for inside in insides:
        above.update(inside.firsts.keys())
        counts.update(inside.firsts)
    is_number = all(map(_GENERIC.fullmatch, map(str.lower, above)))
    shared = sorted(name for name in above if above[name] > 1)
    if len(counts) < 2 or 2 * counts.total() < level.total:
        return
    are_same = len(shared) > 1 and 2 * sum(counts[name] for name in shared) >= level.total
    are_kinds = 2 * sum(len(inside.firsts) > 1 for inside in insides) > len(insides)
    if is_number and not (are_same and len(insides) > _MANY_TIMES * len(above)):
        return
    if not (are_same or (are_kinds and counts.total() >= _ENOUGH * level.total)):
        return
    levels = 1 + max(len(inside.prefix) for inside in insides)
    second = f"{level.start}{'[^/]+/' * levels}{FIRST_FOLDER}"
    raise UnclearLayout(
        images,
        f"{_list_folders(level.firsts)} have folders in them, {_list_names(sorted(above))}",
        [
            Choice(
                f"the classes {_list_names(sorted(above))}",
                Meaning(kind=CLASS_FOLDERS, label_pattern=second),
            ),
            Choice(
                f"the classes {_list_names(level.firsts)}",
                Meaning(kind=CLASS_FOLDERS, label_pattern=f"{level.start}{_ALL_OF_IT}"),
            ),
            *(
                Choice(f"the images in {top}/ alone", images=level.path(top))
                for top in list(level.firsts)[:_MOST_PARTS]
            ),
        ],
    )


def _say_splits(splits: Mapping[str, str]) -> str:
    """The folders, and what their splits are called here."""
    named, told = choose_eval(splits), []
    for folder, name in named.items():
        why = ", for there is no other to evaluate on" * (splits[folder] != name)
        told.append(f"{folder}/" if folder == name else f"{folder}/ ({name}{why})")
    return _list_names(told)


def _list_folders(folders: Iterable[str]) -> str:
    return _list_names(f"{folder}/" for folder in folders)


def _list_names(names: Iterable[str]) -> str:
    shown = list(map(str, names))
    more = f" and {len(shown) - _MOST_SHOWN:,} more" * (len(shown) > _MOST_SHOWN)
    return ", ".join(shown[:_MOST_SHOWN]) + more
