"""What the folders of images mean: which are splits, which are classes, and which are neither.

A folder says nothing else of its images. Where several meanings are possible, nothing is chosen.
"""

import collections
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.annotations_beside import (
    WAY_OUT,
    find_naming,
    find_partners,
    find_tables,
)
from image_pipeline.components.meaning.counted_folders import Level, Parts, Tally
from image_pipeline.components.meaning.folder_doubts import (
    check_containers,
    check_depth,
    check_halves,
    check_inner_halves,
    check_names,
    is_container,
)
from image_pipeline.components.meaning.masks import (
    Masks,
    find_masks,
    is_image_folder,
    is_mask_folder,
)
from image_pipeline.components.meaning.meanings import (
    ALL_OF_IT,
    CLASS_FOLDERS,
    ENOUGH,
    FIRST_FOLDER,
    IN_FILE_NAMES,
    NO_CLASSES,
    SPLIT_FOLDERS,
    SPLITS,
    WITH_MASKS,
    Choice,
    Meaning,
    UnclearLayout,
    list_folders,
    list_names,
    say_splits,
)
from image_pipeline.components.meaning.other_masks import classes_shown, find_other_masks
from image_pipeline.components.sources.file_names import split_named

# ImageNet's synset; a name and a number, as in cat.12.jpg; all before the first underscore.
_IN_NAMES = (
    r"(?P<label>n\d{8})_.+",
    r"(?P<label>[^/]*?[^/\d._ -])[._ -]*\d+\.[^./]+$",
    r"(?P<label>[^/_]+)_.+",
)
_NUMBER = re.compile(r"[-_ ]?\d+(?=\W)")
_WORD_IN_PATH = re.compile(r"[^\W_]+")


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
        found = f"{unclear.found}; and {list_names(naming or partners)} may say more"
        choices = [*_choose_tables(naming), *unclear.choices]
        raise UnclearLayout(images, found, choices) from None
    if meaning.kind == NO_CLASSES:
        _check_other_masks(images, None, list_paths)
    if meaning.kind in (CLASS_FOLDERS, SPLIT_FOLDERS):
        check_names(images, meaning, tally, list_paths)
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
        f"{list_names(unread)}: may say more about the images, in a format that is not read; "
        f"{WAY_OUT}"
    ) * bool(unread)
    if partners or boxes:
        if meaning.kind != NO_CLASSES:
            is_usual = meaning.label_pattern == FIRST_FOLDER
            pattern = ALL_OF_IT if is_usual else meaning.label_pattern
            alone = dataclasses.replace(meaning, label_pattern=pattern)
            choices = [Choice("the classes of folders or names alone", alone), *choices]
        called = (
            f"{tally.texts():,} files such as {list_names(partners)} are named like images, so "
            f"they may be annotations, but in no format that is read; {WAY_OUT}"
        )
        raise UnclearLayout(images, called if partners else lost, choices)
    if meaning.kind == NO_CLASSES and (tables or unread):
        may = f"no folder names classes, and {list_names(names)} may" * bool(tables)
        found = "; ".join(filter(None, (may, lost)))
        raise UnclearLayout(images, found, (*tables, *choices))
    way = "not read, for folders name the classes; ingest it instead to read it"
    beside = [f"{list_names(names)}: {way}"] * bool(names) + [lost] * bool(lost)
    return dataclasses.replace(meaning, inferred=(*meaning.inferred, *beside))


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
    others = (f"{masks.say_others()}, and left out (ingest.leave_out)",) * bool(masks.others)
    pairs = Meaning(
        kind=WITH_MASKS, label_pattern=None, masks=masks, leave_out=masks.others, inferred=others
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
    words = (
        f"{list_folders(tops)}: masks of {masks.count:,} of {total:,} images are left out; "
        "ingest.masks would take them, for segmentation"
    )
    if not tops:
        few = f"only {masks.count:,} of {total:,} images have a file called like their mask"
        words = f"{few}: {masks.mask} is taken as an image (ingest.masks would take it as a mask)"
    return dataclasses.replace(
        meaning,
        leave_out=(*meaning.leave_out, *(f"{top}/" for top in tops)),
        inferred=(*meaning.inferred, words),
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
        check_halves(images, level, splits)
        return _split_folders(images, level, splits, names)
    if not level.firsts:  # One folder, or none, holds all images.
        return _one_folder(level, names)
    check_inner_halves(images, level)
    check_containers(images, level)
    label_pattern = f"{level.start}{FIRST_FOLDER}"
    classes = list_names(level.firsts)
    if splits := _find_splits_below(level):
        taken = f"{say_splits(splits)} are taken as splits, the folders above them as classes: "
        return Meaning(
            kind=SPLIT_FOLDERS,
            label_pattern=label_pattern,
            split_pattern=level.split_pattern(splits, "[^/]+/"),
            splits=splits,
            inferred=(f"{taken}{classes}",),
        )
    check_depth(images, level, Meaning(kind=CLASS_FOLDERS), "")
    if sum(level.firsts.values()) < ENOUGH * level.total:
        return Meaning(kind=NO_CLASSES)  # Most images are in no class folder.
    whole = f"{'/'.join(level.prefix)}/ holds all images; the folders in it are taken as classes: "
    words = (f"{whole}{classes}",) if level.prefix else ()
    return Meaning(kind=CLASS_FOLDERS, label_pattern=label_pattern, inferred=words)


def _find_splits(firsts: Mapping[str, int]) -> dict[str, str]:
    """The folders that are splits, if most images are in such."""
    found = {folder: name for folder in firsts if (name := split_named(folder)) is not None}
    covered = sum(firsts[folder] for folder in found)
    is_level = "train" in found.values() and len(set(found.values())) > 1
    is_most = 2 * covered >= sum(firsts.values()) and len(firsts) <= 2 * len(found)
    return _order(found) if is_level and is_most else {}


def _order(splits: Mapping[str, str]) -> dict[str, str]:
    """Training's first."""
    return dict(sorted(splits.items(), key=lambda item: SPLITS.index(item[1])))


def _find_splits_below(level: Level) -> dict[str, str]:
    """The split folders in each class folder."""
    seconds: collections.Counter[str] = collections.Counter()
    for top in level.firsts:
        inside = level.inside(top)
        seconds.update(inside.firsts or {name: inside.total for name in inside.prefix[:1]})
    splits = {name: split for name in seconds if (split := split_named(name)) is not None}
    covered = sum(seconds[name] for name in splits)
    is_level = "train" in splits.values() and len(set(splits.values())) > 1
    return _order(splits) if is_level and covered >= ENOUGH * level.total else {}


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
        classes, named_by = classes.union(*(f for _, f in labelled.values())), "the folders in them"
    else:
        kind, label_pattern, named_by = IN_FILE_NAMES, None, "the beginnings of their files' names"
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
    words = [f"{taken}, {named_by} as classes: {list_names(sorted(classes))}"]
    if label_pattern is None:
        kind, label_pattern = NO_CLASSES, f"{level.start}[^/]+/{FIRST_FOLDER}"
        words = [f"{taken}; nothing in them names classes"]
    if others := [top for top in level.firsts if top not in kept]:
        count = sum(level.firsts[top] for top in others)
        what = f"{count:,} images of no class are left out (ingest.leave_out)"
        if not set(others).intersection(own):
            what = f"{count:,} masks are left out; ingest.masks would take them, for segmentation"
        words.append(f"{list_folders(others)}: {what}")
    meaning = Meaning(
        kind=kind,
        label_pattern=label_pattern,
        split_pattern=level.split_pattern(kept) if is_split else None,
        splits=kept if is_split else {},
        leave_out=tuple(f"{level.path(top)}/" for top in others),
        inferred=tuple(words),
    )
    depths = {len(between) for between, _ in labelled.values()}
    if kind == SPLIT_FOLDERS and (len(depths) > 1 or depths == {0}):
        check_depth(images, level.merge(kept), meaning, f"{level.start}[^/]+/")
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
    """All images in one folder, which is not a class if it has a usual name of containers."""
    pattern, found = _pattern_in_names(names, level.start)
    if pattern is not None:
        words = f"the beginnings of files' names are taken as classes: {list_names(sorted(found))}"
        return Meaning(kind=IN_FILE_NAMES, label_pattern=pattern, inferred=(words,))
    if not level.prefix:
        return Meaning(kind=NO_CLASSES)
    if is_container(level.prefix[-1]):
        return Meaning(kind=NO_CLASSES, label_pattern=f"{level.start}{FIRST_FOLDER}")
    words = (
        f"{level.prefix[0]}/ holds all images, and is taken as their only class; for images "
        "without labels, set ingest.label_pattern=null"
    )
    return Meaning(kind=NO_CLASSES, inferred=(words,))


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
        fit = repeats and classes.total() >= ENOUGH * len(names)
        if len(classes) >= 2 and fit and not are_splits:
            return f"{start}{pattern}", classes
    return None, collections.Counter()
