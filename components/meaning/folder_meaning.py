"""What the folders of images mean: which are splits, which are classes, and which are neither.

A folder says nothing else of its images. Where several meanings are possible, nothing is chosen.
"""

import collections
import dataclasses
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.annotations_beside import (
    WAY_OUT,
    find_naming,
    find_partners,
    find_tables,
)
from image_pipeline.components.meaning.counted_folders import Level, Parts, Tally, sample_hash
from image_pipeline.components.meaning.masks import (
    Masks,
    find_masks,
    is_image_folder,
    is_mask_folder,
)
from image_pipeline.components.meaning.other_masks import classes_shown, find_other_masks
from image_pipeline.components.sources.file_names import SPLIT_NAMES, split_named

FIRST_FOLDER = r"(?P<label>[^/]+)/.+"
"""The usual pattern of labels: a class is the first folder."""
_ALL_OF_IT = r"(?P<label>[^/]+)/.*"  # The same, said by a person: nothing is inferred then.

# ImageNet's synset; a name and a number, as in cat.12.jpg; all before the first underscore.
_IN_NAMES = (
    r"(?P<label>n\d{8})_.+",
    r"(?P<label>[^/]*?[^/\d._ -])[._ -]*\d+\.[^./]+$",
    r"(?P<label>[^/_]+)_.+",
)
# Folders that hold sets, not things: no class is called so, unless somebody says it.
_CONTAINERS = {
    *("data", "dataset", "datasets", "images", "imgs", "img", "image", "pictures", "photos"),
    *("jpegimages", "split", "splits", "results", "result", "output", "outputs", *SPLIT_NAMES),
}
_PARTS = {"part", "batch", "chunk", "shard", "fold", "volume", "vol", "folder", "archive", "zip"}
_FURTHER = re.compile(r"(?:[-_ ]\d+)?")  # `pictures_2` is the rest of `pictures`
_GENERIC = re.compile(r"(?:part|batch|day|week|month|session|fold|set|group|chunk)?[\W\d_]*")
_MANY_TIMES = 3  # as many folders above as there are names below: patients rather than classes
_NUMBER = re.compile(r"[-_ ]?\d+(?=\W)")
_WORD_IN_PATH = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# Folders of pictures of the same things are called so, or as those of masks are.
_OF_PAIRS = re.compile(
    r"(?:.*[-_ ])?(?:[lh][rq](?:[-_ ](?:bicubic|unknown|mild|difficult|wild))?(?:[-_ ]?x\d)?"
    r"|blur(?:red|ry)?|sharp)|(?-i:[AB])|low|high|inputs?|targets?|source"
    r"|before|after|noisy|clean|hazy|haze|clear|rainy?|norain|ref(?:erence)?|edges?|depth|rgb|n?ir"
    r"|thermal|infrared|vis(?:ible)?",
    re.IGNORECASE,
)
_OF_SCALE = re.compile(r"(?<=/)x\d/|(?<=\d)x\d$", re.IGNORECASE)  # X2/0001x2 is of 0001
_MOST_HELD = 100_000  # names
_ENOUGH = 0.9  # of the images must fit what is inferred
_MOST_SHOWN = 6
_MOST_PARTS = 3  # that are named to be given alone
_SPLITS = ("train", "eval", "test")

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
        if self.masks is not None and self.masks.templates is not None:
            options = {"masks": dict(zip(("images", "masks"), self.masks.templates, strict=True))}
            if self.masks.classes is not None:
                options["masks"]["classes"] = self.masks.classes
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
        if self.meaning is None and files.is_local(images) and os.path.isfile(images):
            return f"unpack {images!r}, and give its {self.images} as --images"
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


def find_meaning(
    images: str, tally: Tally, list_paths: Callable[[], Iterable[str]] | None = None
) -> Meaning:
    """What the folders of images mean; raises UnclearLayout, see `understand`."""
    list_paths = list_paths or tally.names
    masks = find_masks(list_paths)
    if masks is not None:
        meaning = _judge_masks(images, tally, masks)
        if meaning.kind == WITH_MASKS and masks.templates is not None:
            _check_other_masks(images, masks, list_paths)
        return meaning
    partners = find_partners(tally, list_paths())
    readable, unread, boxes = find_naming(images, tally)
    read = (path for path in tally.tables if path not in unread)
    names = [path for path in read if path in readable or not path.endswith(".json")]
    names += [path for path in readable if path not in names]
    tables = _choose_tables(names)
    try:
        meaning = _find_meaning(images, tally.folders(), tally.names())
    except UnclearLayout as unclear:
        naming = list(dict.fromkeys(find_tables(images, tally) + readable))
        if not (naming or partners):
            raise
        told = f"{unclear.found}; and {list_names(naming or partners)} may say more"
        choices = [*_choose_tables(naming), *unclear.choices]
        raise UnclearLayout(images, told, choices) from None
    if meaning.kind == NO_CLASSES:
        _check_other_masks(images, None, list_paths)
    if meaning.kind in (CLASS_FOLDERS, SPLIT_FOLDERS):
        _check_names(images, meaning, tally, list_paths)
    if not tally.folders() and tables:
        found = f"it holds no images, and {list_names(names)} may hold some, or say where they are"
        raise UnclearLayout(images, found, tables)
    if not tally.folders() and unread:
        raise UserError(
            f"{images!r} holds no images, and {list_names(unread)} may, in a form that is not "
            "read; save the arrays of MATLAB's .mat as an .npz file, or as a PNG file an image."
        )
    unlabelled = dataclasses.replace(meaning, kind=NO_CLASSES, label_pattern=None)
    choices = [Choice("no labels", unlabelled)]
    lost = (
        f"{list_names(unread)}: may say more of the images in a form that is not read; {WAY_OUT}"
    ) * bool(unread)
    if partners or boxes:
        if meaning.kind != NO_CLASSES:
            is_usual = meaning.label_pattern == FIRST_FOLDER
            pattern = _ALL_OF_IT if is_usual else meaning.label_pattern
            alone = dataclasses.replace(meaning, label_pattern=pattern)
            choices = [Choice("the classes of folders or names alone", alone), *choices]
        called = (
            f"{tally.texts():,} files such as {list_names(partners)} are called as images are, so "
            f"they may be annotations, and are of no form that is read; {WAY_OUT}"
        )
        raise UnclearLayout(images, called if partners else lost, choices)
    if meaning.kind == NO_CLASSES and (tables or unread):
        may = f"no folder names classes, and {list_names(names)} may" * bool(tables)
        found = "; ".join(filter(None, (may, lost)))
        raise UnclearLayout(images, found, (*tables, *choices))
    way = "not read, for folders name the classes; give it as --images to read it"
    beside = [f"{list_names(names)}: {way}"] * bool(names) + [lost] * bool(lost)
    return dataclasses.replace(meaning, said=(*meaning.said, *beside))


def _choose_tables(tables: Sequence[str]) -> list[Choice]:
    """What tables say: those of one a split are given as a pattern, by their folders or names."""
    alike: dict[tuple[str, str], list[str]] = {}  # what is before and after the split's word
    for table in tables:
        found = [match for match in _WORD_IN_PATH.finditer(table) if split_named(match[0])]
        start, end = found[-1].span() if found else (0, len(table))
        number = _NUMBER.match(table, end)  # train_1.csv is of those that test.csv is of
        end = number.end() if number and found else end
        alike.setdefault((table[:start], table[end:]), []).append(table[start:end])
    choices = []
    for (before, after), words in alike.items():
        same = [f"{before}{word}{after}" for word in words]
        given = f"{before}{{{','.join(words)}}}{after}" if len(words) > 1 and after else ""
        named = [(same, given)] if given else [([each], each) for each in same]
        choices += [Choice(f"what {list_names(each)} says", images=path) for each, path in named]
    return choices


def _check_other_masks(
    images: str, masks: Masks | None, list_paths: Callable[[], Iterable[str]]
) -> None:
    """Refuses images of which several kinds of files may be the masks, or one without its word."""
    others = find_other_masks(images, list_paths, masks)
    if not others:
        return
    if masks is not None:
        shown = classes_shown(images, masks, list_paths())
        others.insert(0, dataclasses.replace(masks, classes=shown))
    choices = []
    for each in others:
        _, own = each.templates or ("", "")
        meaning = Meaning(kind=WITH_MASKS, label_pattern=None, masks=each, leave_out=each.others)
        choices.append(Choice(f"{own} as masks", meaning))
    unlabelled = Choice("images without labels", Meaning(kind=NO_CLASSES, label_pattern=None))
    raise UnclearLayout(
        images,
        f"{list_names(each.mask for each in others)} may each be a mask of {others[0].image}",
        choices if masks is not None else [*choices, unlabelled],
    )


def _judge_masks(images: str, tally: Tally, masks: Masks) -> Meaning:
    """Classes beside which a few masks lie; else, what has masks is for segmentation."""
    folders = tally.folders()
    own = {parts: n for parts, n in folders.items() if not any(map(is_mask_folder, parts))}
    told = (f"{masks.say_others()}, and left out (ingest.leave_out)",) * bool(masks.others)
    pairs = Meaning(
        kind=WITH_MASKS, label_pattern=None, masks=masks, leave_out=masks.others, said=told
    )
    total = sum(own.values())
    if 2 * masks.count >= total or is_image_folder(masks.image.rpartition("/")[0]):
        return pairs
    try:
        meaning = _find_meaning(images, own, tally.names())
    except UnclearLayout:
        return pairs
    if meaning.kind not in (CLASS_FOLDERS, SPLIT_FOLDERS):
        return pairs
    tops = sorted({_first_mask_folder(parts) for parts in folders.keys() - own.keys()})
    said = (
        f"{list_folders(tops)}: masks of {masks.count:,} of {total:,} images are left out; "
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


def _first_mask_folder(parts: Parts) -> str:
    number = next(number for number, part in enumerate(parts) if is_mask_folder(part))
    return "/".join(parts[: number + 1])


def find_split_folders(folders: Mapping[Parts, int]) -> tuple[str | None, dict[str, str]]:
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


def _find_meaning(images: str, folders: Mapping[Parts, int], names: Sequence[str]) -> Meaning:
    level = Level(folders)
    if splits := _find_splits(level.firsts):
        _check_halves(images, level, splits)
        return _split_folders(images, level, splits, names)
    if not level.firsts:  # One folder, or none, holds all images.
        return _one_folder(level, names)
    _check_inner_halves(images, level)
    _check_containers(images, level)
    label_pattern = f"{level.start}{FIRST_FOLDER}"
    classes = list_names(level.firsts)
    if splits := _find_splits_below(level):
        told = f"{say_splits(splits)} are taken as splits, the folders above them as classes: "
        return Meaning(
            kind=SPLIT_FOLDERS,
            label_pattern=label_pattern,
            split_pattern=level.split_pattern(splits, "[^/]+/"),
            splits=splits,
            said=(f"{told}{classes}",),
        )
    _check_depth(images, level, Meaning(kind=CLASS_FOLDERS), "")
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


def _find_splits_below(level: Level) -> dict[str, str]:
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
    images: str, level: Level, splits: Mapping[str, str], names: Sequence[str]
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
    taken = f"{say_splits(kept)} are taken as splits" if is_split else list_folders(kept)
    said = [f"{taken}, {told} as classes: {list_names(sorted(classes))}"]
    if label_pattern is None:
        kind, label_pattern = NO_CLASSES, f"{level.start}[^/]+/{FIRST_FOLDER}"
        said = [f"{taken}; nothing in them names classes"]
    if others := [top for top in level.firsts if top not in kept]:
        count = sum(level.firsts[top] for top in others)
        what = f"{count:,} images of no class are left out (ingest.leave_out)"
        if not set(others).intersection(own):
            what = f"{count:,} masks are left out; ingest.masks would take them, for segmentation"
        said.append(f"{list_folders(others)}: {what}")
    meaning = Meaning(
        kind=kind,
        label_pattern=label_pattern,
        split_pattern=level.split_pattern(kept) if is_split else None,
        splits=kept if is_split else {},
        leave_out=tuple(f"{level.path(top)}/" for top in others),
        said=tuple(said),
    )
    depths = {len(between) for between, _ in labelled.values()}
    if kind == SPLIT_FOLDERS and (len(depths) > 1 or depths == {0}):
        _check_depth(images, level.merge(kept), meaning, f"{level.start}[^/]+/")
    return meaning


def _unclear_parts(
    images: str, level: Level, splits: Mapping[str, str], unknown: Sequence[str]
) -> UnclearLayout:
    """The error of folders beside splits that have classes, too."""
    alone = Meaning(
        kind=SPLIT_FOLDERS,
        label_pattern=f"{level.start}[^/]+/{FIRST_FOLDER}",
        split_pattern=level.split_pattern(splits),
        splits=splits,
        leave_out=tuple(f"{level.path(top)}/" for top in unknown),
    )
    named, others = list_folders(splits), list_folders(unknown)
    copies = [top for top in unknown if _find_splits(level.inside(top).firsts)]
    ways = [
        Choice(f"{top}/ alone, which has splits, too", images=level.path(top)) for top in copies
    ]
    if not copies:
        shared = dataclasses.replace(alone, leave_out=())
        ways = [Choice(f"all, with {others} shared out", shared)]
    found = f"{named} are splits, and {others} beside them have classes, too"
    return UnclearLayout(images, found, [Choice(f"{named} alone", alone), *ways])


def _one_folder(level: Level, names: Sequence[str]) -> Meaning:
    """All images in one folder, which is no class if it is called as containers are."""
    pattern, found = _pattern_in_names(names, level.start)
    if pattern is not None:
        said = f"the beginnings of files' names are taken as classes: {list_names(sorted(found))}"
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


def _find_containers(level: Level) -> list[str]:
    """First folders that hold sets: all of them, if they are the parts of one."""
    bare = {re.sub(r"[\W\d_]+", " ", top) for top in level.firsts}
    words = {word.lower() for top in bare for word in _WORD.findall(top)}
    if len(bare) == 1 and words & (_CONTAINERS | _PARTS):
        return list(level.firsts)
    first = min(level.firsts, key=len, default="")
    if all(_FURTHER.fullmatch(top.removeprefix(first)) for top in level.firsts):
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
        are_splits = all(map(split_named, classes))  # as of train_00001.jpg
        fit = repeats and classes.total() >= _ENOUGH * len(names)
        if len(classes) >= 2 and fit and not are_splits:
            return f"{start}{pattern}", classes
    return None, collections.Counter()


def _check_containers(images: str, level: Level) -> None:
    """Refuses folders of which some are called as those of whole sets are, or hold the others'."""
    containers = _find_containers(level)
    if not containers or len(level.firsts) < 2:
        return
    whole = Meaning(kind=CLASS_FOLDERS, label_pattern=f"{level.start}{_ALL_OF_IT}")
    choices = [
        Choice(f"what is in {top}/ ({list_names(sorted(inside))})", images=level.path(top))
        for top in containers[:_MOST_PARTS]
        if (inside := level.inside(top).firsts)
    ]
    others = [top for top in level.firsts if top not in containers]
    if len(others) > 1:
        left_out = tuple(f"{level.path(top)}/" for top in containers)
        alone = dataclasses.replace(whole, leave_out=left_out)
        choices.append(Choice(f"the classes {list_names(others)} alone", alone))
    choices.append(Choice(f"the classes {list_names(level.firsts)}", whole))
    unlabelled = dataclasses.replace(whole, label_pattern=None)
    choices += [Choice("no labels", unlabelled)] * (not others)
    found = f"it has the folders {list_folders(level.firsts)}, and {list_folders(containers)} "
    is_one = "is hardly a class" if len(containers) == 1 else "are hardly classes"
    raise UnclearLayout(images, f"{found}{is_one}", choices)


def _check_halves(images: str, level: Level, splits: Mapping[str, str]) -> None:
    """Refuses splits of which each has folders called as those of pairs are: `trainA`, `trainB`."""
    halves: dict[str, list[str]] = {}
    around: list[list[str]] = [[], []]
    for top in splits:
        word = next((each for each in _WORD.findall(top) if split_named(each)), top)
        before, _, after = top.partition(word)
        half = (after or before).strip("-_ ")
        halves.setdefault(half, []).append(top)
        for side, text in zip(around, top.rsplit(half, 1) if half else (top, ""), strict=True):
            side.append(re.escape(text))
    if len(halves) < 2 or not all(map(_OF_PAIRS.fullmatch, halves)):
        return
    starts, ends = ("|".join(dict.fromkeys(side)) for side in around)
    own = "|".join(map(re.escape, halves))
    pattern = f"{level.start}(?:{starts})(?P<label>{own}){f'(?:{ends})' if ends else ''}/"
    others = {half: [top for top in level.firsts if top not in halves[half]] for half in halves}
    beside = [top for top in level.firsts if top not in splits]
    raise UnclearLayout(
        images,
        f"{list_folders(splits)} are of splits, and called as pictures of two kinds are",
        [
            *(
                Choice(
                    f"the images in {list_folders(tops)} alone",
                    _of_splits(level, splits, tops, others[half], None),
                )
                for half, tops in halves.items()
            ),
            Choice(
                f"the classes {list_names(sorted(halves))}",
                _of_splits(level, splits, list(splits), beside, pattern),
            ),
        ],
    )


def _of_splits(
    level: Level,
    splits: Mapping[str, str],
    tops: Sequence[str],
    others: Sequence[str],
    label_pattern: str | None,
) -> Meaning:
    """The meaning of some folders of splits, without all others."""
    own = {top: splits[top] for top in tops}
    is_split = len(set(own.values())) > 1
    return Meaning(
        kind=NO_CLASSES if label_pattern is None else SPLIT_FOLDERS,
        label_pattern=label_pattern,
        split_pattern=level.split_pattern(own) if is_split else None,
        splits=own if is_split else {},
        leave_out=tuple(f"{level.path(top)}/" for top in others),
    )


def _check_inner_halves(images: str, level: Level) -> None:
    """Refuses folders that each have the two of pairs, as `low` and `high`, in them."""
    inner = {frozenset(level.inside(top).firsts): level.inside(top).prefix for top in level.firsts}
    ((names, prefix), *more) = inner.items()
    if more or prefix or len(names) < 2 or not all(map(_OF_PAIRS.fullmatch, names)):
        return
    alone = {
        name: tuple(
            f"{level.path(top)}/{n}/" for top in level.firsts for n in sorted(names - {name})
        )
        for name in sorted(names)
    }
    pattern = f"{level.start}[^/]+/{_ALL_OF_IT}"
    raise UnclearLayout(
        images,
        f"{list_folders(level.firsts)} each have {list_folders(sorted(names))}, called as pictures "
        "of the same things are",
        [
            *(
                Choice(
                    f"the images in {name}/ alone",
                    Meaning(kind=NO_CLASSES, label_pattern=None, leave_out=left_out),
                )
                for name, left_out in alone.items()
            ),
            Choice(
                f"the classes {list_names(sorted(names))}",
                Meaning(kind=CLASS_FOLDERS, label_pattern=pattern),
            ),
        ],
    )


def _check_names(
    images: str, meaning: Meaning, tally: Tally, list_paths: Callable[[], Iterable[str]]
) -> None:
    """Refuses classes whose images have the same names: pictures of the same things, as scans,
    edges and depths are. Images that are numbered in each class may be of any, unless the folders
    are called as those of pairs are.
    """
    find = re.compile(meaning.label_pattern or "").match
    sizes, folders = collections.Counter[str](), collections.defaultdict[str, set[str]](set)
    for parts, count in tally.folders().items():
        if found := find("/".join((*parts, "x"))):
            sizes[found["label"]] += count
            folders[found["label"]].add(f"{found.string[: found.end('label')]}/")
    names = [os.path.splitext(name)[0].rpartition("/")[2] for name in tally.names()]
    numbers = [int(number) for name in names for number in re.findall(r"\d+", name)[-1:]]
    are_pairs = all(_OF_PAIRS.fullmatch(name) or is_mask_folder(name) for name in sizes)
    least = 2 if are_pairs else max(2, _ENOUGH * max(sizes.values(), default=0))
    if len(sizes) < 2 or min(sizes.values()) < least:
        return
    are_numbered = bool(numbers) and max(numbers) - min(numbers) < 2 * max(sizes.values())
    if are_numbered and not are_pairs:
        return
    one_in, named = 1 + sizes.total() // _MOST_HELD, collections.defaultdict[str, set[int]](set)
    for path in list_paths():
        if found := find(path):
            rest = os.path.splitext(path[found.end("label") :])[0]
            rest = _OF_SCALE.sub("", rest) if are_pairs else rest
            if (name := sample_hash(f"{path[: found.start('label')]}:{rest}")) % one_in == 0:
                named[found["label"]].add(name)
    if len(set.intersection(*named.values())) < _ENOUGH * max(map(len, named.values())):
        return
    unlabelled = dataclasses.replace(meaning, kind=NO_CLASSES, label_pattern=None)
    alone = [
        Choice(
            f"the images in {name}/ alone",
            dataclasses.replace(unlabelled, leave_out=(*meaning.leave_out, *sorted(others))),
        )
        for name in sorted(sizes)[:_MOST_PARTS]
        if (others := set().union(*(folders[each] for each in sizes if each != name)))
    ]
    told = "have images of the same names throughout, as pictures and masks of the same things do"
    whole = dataclasses.replace(
        meaning, label_pattern=(meaning.label_pattern or "").removesuffix(".+") + ".*"
    )
    raise UnclearLayout(
        images,
        f"{list_folders(sorted(sizes))} {told} (ingest.masks would pair these)",
        [*alone, Choice(f"the classes {list_names(sorted(sizes))}", whole)],
    )


def _check_depth(images: str, level: Level, meaning: Meaning, above: str) -> None:
    """Refuses two levels of folders that may both be the classes; `above` is a pattern.

    So are folders that are called alike in several others, as in domain/class, and kinds of kinds,
    as in animals/cat. Numbers and dates in class folders are neither, unless they are in all of
    very many.
    """
    insides = [level.inside(top) for top in level.firsts]
    within, counts = collections.Counter[str](), collections.Counter[str]()
    for inside in insides:
        within.update(inside.firsts.keys())
        counts.update(inside.firsts)
    is_number = all(map(_GENERIC.fullmatch, map(str.lower, within)))
    shared = sorted(name for name in within if within[name] > 1)
    if len(counts) < 2 or 2 * counts.total() < level.total:
        return
    are_same = len(shared) > 1 and 2 * sum(counts[name] for name in shared) >= level.total
    are_kinds = 2 * sum(len(inside.firsts) > 1 for inside in insides) > len(insides)
    if is_number and not (are_same and len(insides) > _MANY_TIMES * len(within)):
        return
    if not (are_same or (are_kinds and counts.total() >= _ENOUGH * level.total)):
        return
    levels = 1 + max(len(inside.prefix) for inside in insides)
    start = f"{above}{level.start}"
    second = f"{start}{'[^/]+/' * levels}{FIRST_FOLDER}"
    raise UnclearLayout(
        images,
        f"{list_folders(level.firsts)} have folders in them, {list_names(sorted(within))}",
        [
            Choice(
                f"the classes {list_names(sorted(within))}",
                dataclasses.replace(meaning, label_pattern=second),
            ),
            Choice(
                f"the classes {list_names(level.firsts)}",
                dataclasses.replace(meaning, label_pattern=f"{start}{_ALL_OF_IT}"),
            ),
            *(
                Choice(f"the images in {top}/ alone", images=level.path(top))
                for top in list(level.firsts)[: _MOST_PARTS * (not above)]
            ),
        ],
    )


def say_splits(splits: Mapping[str, str]) -> str:
    """The folders, and what their splits are called here."""
    named, told = choose_eval(splits), []
    for folder, name in named.items():
        why = ", for there is no other to evaluate on" * (splits[folder] != name)
        told.append(f"{folder}/" if folder == name else f"{folder}/ ({name}{why})")
    return list_names(told)


def list_folders(folders: Iterable[str]) -> str:
    """The first of some folders, for messages."""
    return list_names(f"{folder}/" for folder in folders)


def list_names(names: Iterable[str]) -> str:
    """The first of some names, for messages."""
    shown = list(map(str, names))
    more = f" and {len(shown) - _MOST_SHOWN:,} more" * (len(shown) > _MOST_SHOWN)
    return ", ".join(shown[:_MOST_SHOWN]) + more
