"""Folders that may mean several things, of which a person says which: nothing is chosen then."""

import collections
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from image_pipeline.components.meaning.counted_folders import Level, Tally, sample_hash
from image_pipeline.components.meaning.masks import (
    is_mask_folder,
)
from image_pipeline.components.meaning.meanings import (
    ALL_OF_IT,
    CLASS_FOLDERS,
    ENOUGH,
    FIRST_FOLDER,
    NO_CLASSES,
    SPLIT_FOLDERS,
    Choice,
    Meaning,
    UnclearLayout,
    list_folders,
    list_names,
)
from image_pipeline.components.sources.file_names import SPLIT_NAMES, split_named

# Folders that hold sets, not things: no class is called so, unless somebody says it.
_CONTAINERS = {
    *("data", "dataset", "datasets", "images", "imgs", "img", "image", "pictures", "photos"),
    *("jpegimages", "split", "splits", "results", "result", "output", "outputs", *SPLIT_NAMES),
}
_PARTS = {"part", "batch", "chunk", "shard", "fold", "volume", "vol", "folder", "archive", "zip"}
_FURTHER = re.compile(r"(?:[-_ ]\d+)?")  # `pictures_2` is the rest of `pictures`
_GENERIC = re.compile(r"(?:part|batch|day|week|month|session|fold|set|group|chunk)?[\W\d_]*")
_MANY_TIMES = 3  # as many folders above as there are names below: patients rather than classes
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
_MOST_PARTS = 3  # that are named to be given alone


def is_container(folder: str) -> bool:
    """Whether a folder has a usual name of whole sets."""
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
        if (is_container(top) and (level.inside(top).firsts or not split_named(top)))
        or len(siblings.intersection(level.inside(top).firsts)) > 1
    ]


def check_containers(images: str, level: Level) -> None:
    """Refuses folders of which some have usual names of whole sets, or hold the others."""
    containers = _find_containers(level)
    if not containers or len(level.firsts) < 2:
        return
    whole = Meaning(kind=CLASS_FOLDERS, label_pattern=f"{level.start}{ALL_OF_IT}")
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


def check_halves(images: str, level: Level, splits: Mapping[str, str]) -> None:
    """Refuses splits whose folders have usual names of pairs: `trainA`, `trainB`."""
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
        f"{list_folders(splits)} are of splits, and named like two kinds of pictures",
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


def check_inner_halves(images: str, level: Level) -> None:
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
    pattern = f"{level.start}[^/]+/{ALL_OF_IT}"
    raise UnclearLayout(
        images,
        f"{list_folders(level.firsts)} each have {list_folders(sorted(names))}, named like "
        "pictures of the same things",
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


def check_names(
    images: str, meaning: Meaning, tally: Tally, list_paths: Callable[[], Iterable[str]]
) -> None:
    """Refuses classes whose images have the same names: pictures of the same things, as scans,
    edges and depths are. Images that are numbered in each class may be of any, unless the folders
    have usual names of pairs.
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
    least = 2 if are_pairs else max(2, ENOUGH * max(sizes.values(), default=0))
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
    if len(set.intersection(*named.values())) < ENOUGH * max(map(len, named.values())):
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
    verdict = (
        "have images of the same names throughout, as pictures and masks of the same things do"
    )
    whole = dataclasses.replace(
        meaning, label_pattern=(meaning.label_pattern or "").removesuffix(".+") + ".*"
    )
    raise UnclearLayout(
        images,
        f"{list_folders(sorted(sizes))} {verdict} (ingest.masks would pair these)",
        [*alone, Choice(f"the classes {list_names(sorted(sizes))}", whole)],
    )


def check_depth(images: str, level: Level, meaning: Meaning, above: str) -> None:
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
    if not (are_same or (are_kinds and counts.total() >= ENOUGH * level.total)):
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
                dataclasses.replace(meaning, label_pattern=f"{start}{ALL_OF_IT}"),
            ),
            *(
                Choice(f"the images in {top}/ alone", images=level.path(top))
                for top in list(level.firsts)[: _MOST_PARTS * (not above)]
            ),
        ],
    )
