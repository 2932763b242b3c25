"""Masks among images, by names alone: `masks/7.png` of `images/7.jpg`, `7_mask.png` of `7.jpg`.

Unless `ingest.masks` says so, they would be taken for images: of a class of their own, or of none.
"""

import collections
import dataclasses
import functools
import itertools
import json
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from image_pipeline.components.images.by_extras import ENDINGS as EXTRA_ENDINGS
from image_pipeline.components.sources.file_names import SPLIT_NAMES
from image_pipeline.components.sources.pairs import match_template

ENDINGS = frozenset(
    (
        *(".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".avif", ".jpe"),
        *(".jfif", *EXTRA_ENDINGS),
    )
)
"""What ingest decodes, by the endings that people give it."""
_ENDINGS = tuple(ENDINGS)
_MASK_WORDS = {
    *("mask", "masks", "annotation", "annotations", "segmentation", "segmentations"),
    *("seg", "semseg", "semantic", "gt", "groundtruth", "trimap", "trimaps", "matte", "mattes"),
    *("label", "labels", "annot", "annots", "inst", "instance", "instances"),
}
# Of several masks an image, as in Cityscapes, those of classes are wanted: not these.
_OTHER_MASK_WORDS = {
    *("inst", "instance", "instances", "object", "objects", "color", "colors", "colour"),
    *("visualization", "viz", "parts"),
}
_IMAGE_WORDS = {
    *("image", "images", "img", "imgs", "jpegimages", "photo", "photos", "picture", "pictures"),
    *("input", "inputs", "scan", "scans", "rgb", "raw", "frame", "frames", "original", "originals"),
    "leftimg8bit",
}
_WORD = re.compile(r"[^-_. ]+")
_CASED_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SPLIT_WORDS = sorted(SPLIT_NAMES, key=len, reverse=True)
_SUFFIX = re.compile(
    r"[-_. ](?:masks?|seg|segmentation|gt|ground_?truth|trimap|matte|parts_\d+"
    r"|gt(?:fine|coarse)_[a-z]+)$"
)
_IMAGE_SUFFIX = re.compile(r"[-_. ](?:leftimg8bit|image|img|rgb)$")
# A mask is named like its image, with or without an ending such as _mask or _L.
_ANY_SUFFIX = re.compile(r"_[A-Za-z]+$")
_ENOUGH = 0.9  # of the possible masks must have an image: a class may be called "mask"
_MOST_TRIED = 5  # pairs that templates are made of
_MOST_OTHERS = 100  # folders without masks, as options name them
_MOST_SAMPLED = 10_000  # these tell as much as millions, and are held in memory

# An image's key: the path without the folder that may have another name and without the ending; and
# the mask's own path.
_Place = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Masks:
    """Masks that were found.

    Attributes:
      count: how many of the files looked at are the mask of an image.
      mask: path of one.
      image: path of its image.
      image_dir: the folder of all images; None if it holds masks too, or there are several.
      templates: of their paths, for `ingest.masks.images` and `.masks`; None if no one pair fits.
      others: folders of images that are neither, for `ingest.leave_out`.
      classes: names for what they show, where ids alone will not do, see `guess_classes`.
    """

    count: int
    mask: str
    image: str
    image_dir: str | None
    templates: tuple[str, str] | None = None
    others: tuple[str, ...] = ()
    classes: Mapping[str, int | str] | None = None

    def say_others(self) -> str:
        """That their images are not pairs; nothing if there are none."""
        shown = ", ".join(self.others[:_MOST_TRIED]) + ", …" * (len(self.others) > _MOST_TRIED)
        return f"images in {shown} are neither these images nor their masks" * bool(self.others)


def find_masks(list_paths: Callable[[], Iterable[str]]) -> Masks | None:
    """Looks for masks and their images.

    Args:
      list_paths: gives the paths of all files, relative to one folder, with slashes. It is called
        again only if some have a mask's name.

    Returns:
      What was found; None if there are none, or only files with a mask's name.
    """
    if not any(map(is_called_mask, list_paths())):
        return None
    start = _find_start(list_paths())  # What all are in says nothing, as `Kvasir-SEG/`.

    def list_below() -> Iterable[str]:
        return (path[len(start) :] for path in list_paths() if path.startswith(start))

    named = (path for path in list_below() if is_called_mask(path))
    candidates = list(itertools.islice(named, _MOST_SAMPLED))
    if not candidates:
        return None
    wanted: dict[_Place, list[str]] = collections.defaultdict(list)
    for mask in candidates:
        for place in _places_of_image(mask):
            wanted[place].append(mask)
    paired: dict[str, str] = {}
    for path in list_below():
        if _is_image(path) and not is_called_mask(path):
            for mask in (mask for place in _places(path) for mask in wanted.get(place, ())):
                if _fits(mask, path):
                    paired.setdefault(mask, path)
    if len(paired) < _ENOUGH * len(candidates):
        return None
    paired = {f"{start}{mask}": f"{start}{image}" for mask, image in paired.items()}
    mask = min(paired, key=_rank)
    templates = _find_templates(paired)
    return Masks(
        len(paired),
        mask,
        paired[mask],
        _find_image_dir(paired),
        templates,
        _find_others(start, list_paths(), templates) if templates else (),
    )


def _find_start(paths: Iterable[str]) -> str:
    """The folders that all images are in, with the last slash."""
    start: list[str] | None = None
    for path in paths:
        if _is_image(path):
            *folders, _ = path.split("/")
            start = folders if start is None else start[: _count_equal(start, folders)]
            if not start:
                break
    return "".join(f"{folder}/" for folder in start or ())


def _find_others(start: str, paths: Iterable[str], templates: tuple[str, str]) -> tuple[str, ...]:
    """The highest folders of images that are neither images with masks nor called masks."""
    own, others = {""}, set[str]()
    for path in paths:
        if not _is_image(path):
            continue
        fits = any(match_template(each, path) is not None for each in templates)
        if fits or not is_called_mask(path[len(start) :]):
            folders = with_parents(path.rpartition("/")[0])
            (own if fits else others).update(folders if fits else folders[-1:])
    tops = {next((each for each in with_parents(other) if each not in own), "") for other in others}
    tops = {f"{top}/" for top in tops if top}
    return tuple(sorted(tops)) if len(tops) <= _MOST_OTHERS else ()


def with_parents(folder: str) -> list[str]:
    """A folder and those that it is in, the highest one first."""
    return list(itertools.accumulate(folder.split("/"), "{}/{}".format))


def explain_masks(images_dir: str, masks: Masks, doubt: str = "") -> str:
    """What was found, the rule and what to do; `doubt` is of what the masks show."""
    only = ""
    if masks.image_dir:
        only = f" For the images alone, give {images_dir.rstrip('/')}/{masks.image_dir}."
    options, way = "{images: …, masks: …}", ""
    if masks.templates is None:
        way = " with templates of their paths: no single one with {key} fits all of them"
    else:
        images, own = masks.templates
        options = f'{{images: "{images}", masks: "{own}"}}'
    if masks.others:
        leave_out = shlex.quote(f"ingest.leave_out={json.dumps(masks.others)}")
        way += f" {leave_out}, for {masks.say_others()}"
    return (
        f"{images_dir!r} holds images and their masks, such as {masks.mask!r} of {masks.image!r}; "
        f"to store each pair, set ingest.masks='{options}'{way}.{f' {doubt}.' * bool(doubt)}{only} "
        "If they are images of their own, write an ingest.label_pattern that says so."
    )


def _find_templates(paired: Mapping[str, str]) -> tuple[str, str] | None:
    """What the paths of most images and masks look like; None if that is not one pair."""
    masks = sorted(paired, key=_rank)
    images = set(paired.values())
    for mask in masks[:_MOST_TRIED]:
        for templates in templates_of(paired[mask], mask):
            fitting = {
                i
                for m, i in paired.items()
                if match_template(templates[0], i) == match_template(templates[1], m) is not None
            }
            if len(fitting) >= _ENOUGH * len(images):
                return templates
    return None


def _rank(mask: str) -> tuple[bool, bool]:
    """Orders masks: those of classes' ids first, which are often called labels."""
    words = set().union(*map(_words, os.path.splitext(mask)[0].split("/")))
    return bool(words & _OTHER_MASK_WORDS), "label" not in mask.lower()


def templates_of(image: str, mask: str) -> Iterator[tuple[str, str]]:
    """Templates that fit one pair: folders that differ are kept, others are part of the key."""
    (*image_folders, image_name), (*mask_folders, mask_name) = image.split("/"), mask.split("/")
    (stem, ending), image_stem = os.path.splitext(mask_name), os.path.splitext(image_name)[0]
    key = image_stem
    if not stem.startswith(image_stem):
        key = stem[: _count_equal(stem, image_stem)].rstrip("-_. ")
    suffix, rest = stem[len(key) :], image_stem[len(key) :]
    firsts = [f"{{key}}{rest}.*"]
    if rest[:1] in ("-", "_", ".", " "):  # as 21_training.tif and 01_test.tif have it
        firsts.append(f"{{key}}{rest[0]}*.*")
    lasts = [(f, m) for f in firsts for m in (f"{{key}}{suffix}{ending}", f"{{key}}{suffix}.*")]
    if image_folders == mask_folders:
        yield from lasts
        return
    lead = _count_equal(image_folders, mask_folders)
    # What follows the folders that differ is part of the key.
    trail = _count_equal(image_folders[lead:][::-1], mask_folders[lead:][::-1])
    own = [
        "/".join(folders[lead : len(folders) - trail]) for folders in (image_folders, mask_folders)
    ]
    for before in ("/".join(image_folders[:lead]), "{scene}") if lead else ("",):
        first, second = ("".join(f"{part}/" for part in (before, each) if part) for each in own)
        yield from ((f"{first}{image}", f"{second}{mask}") for image, mask in lasts)
    for split in (each for each in _SPLIT_WORDS if all(each in folder for folder in own)):
        start = "".join(f"{part}/" for part in image_folders[:lead])
        first, second = (f"{start}{each.replace(split, '{split}', 1)}/" for each in own)
        yield from ((f"{first}{image}", f"{second}{mask}") for image, mask in lasts)


def _count_equal(first: Sequence[str], second: Sequence[str]) -> int:
    """How many elements are equal from the beginning on."""
    pairs = zip(first, second, strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def is_called_mask(path: str) -> bool:
    """Tells whether an image's name, or a folder of it, is as those of masks are."""
    return _is_image(path) and (has_mask_name(path) or in_mask_folder(path))


def in_mask_folder(path: str) -> bool:
    """Whether a file is in a folder with a usual name of masks."""
    return _are_mask_folders(path.rpartition("/")[0])


def _is_image(path: str) -> bool:
    return path.lower().endswith(_ENDINGS)


def has_mask_name(path: str) -> bool:
    """Tells whether a file's name ends as those of masks do, as `7_mask.png`."""
    return _SUFFIX.search(os.path.splitext(path)[0].lower()) is not None


@functools.lru_cache  # Most files are in the folder of the one before.
def _are_mask_folders(folders: str) -> bool:
    return any(is_mask_folder(folder) for folder in folders.split("/"))


def is_mask_folder(folder: str) -> bool:
    """Whether a folder has a usual name of masks."""
    return bool(_words(folder) & _MASK_WORDS) or "ground_truth" in folder.lower()


def is_image_folder(path: str) -> bool:
    """Whether a folder has a usual name of masks' images, and not of a class."""
    return bool(_words(path.rpartition("/")[2]) & _IMAGE_WORDS)


@functools.lru_cache
def _words(folder: str) -> frozenset[str]:
    """In small letters; `trainannot` and `SemSeg` give their parts, too."""
    words = {word.lower() for word in _WORD.findall(folder)}
    parts = {word.lower() for word in _CASED_WORD.findall(folder)}
    parts |= {word.removeprefix(split) for word in words for split in SPLIT_NAMES}
    return frozenset(words | parts)


@functools.lru_cache
def _splits(folders: str) -> set[str]:
    """The splits that folders name."""
    words = set().union(*map(_words, folders.split("/")))
    return {
        SPLIT_NAMES[split]
        for split in SPLIT_NAMES
        if any(word.removeprefix(split) in {"", *_MASK_WORDS} - {word} for word in words)
    }


def _places_of_image(mask: str) -> Iterable[_Place]:
    """The keys of the images that the path may be a mask of."""
    folder, _, name = mask.rpartition("/")
    stem = os.path.splitext(name)[0]
    bare = stem[: found.start()] if (found := _SUFFIX.search(stem.lower())) else None
    if bare is not None:
        yield folder, "", bare
    *folders, _ = mask.split("/")
    for number in range(len(folders)):
        # Several such folders, as in `annotations/trimaps`, may stand for one.
        for end in range(number + 1, len(folders) + 1):
            if not all(map(is_mask_folder, folders[number:end])):
                break
            for own in {stem, bare or stem, _ANY_SUFFIX.sub("", stem)}:
                yield "/".join(folders[:number]), "/".join(["", *folders[end:]]), own


def _places(image: str) -> Iterable[_Place]:
    """The image's own folder; and where a mask's folder may be instead of one of its folders."""
    *folders, name = image.split("/")
    stem = os.path.splitext(name)[0]
    bare = stem[: found.start()] if (found := _IMAGE_SUFFIX.search(stem.lower())) else stem
    for own in {stem, bare}:
        yield "/".join(folders), "", own
        for number in range(len(folders)):
            yield "/".join(folders[:number]), "/".join(["", *folders[number + 1 :]]), own


def _fits(mask: str, image: str) -> bool:
    """Whether two folders with the same file names are masks and images, and not two classes."""
    folder = mask.rpartition("/")[0]
    if folder == image.rpartition("/")[0]:
        return True
    theirs, own = _splits(folder), _splits(image.rpartition("/")[0])
    if theirs and own and not theirs & own:
        return False  # `trainannot/1.png` is of `train/1.png`, and not of `test/1.png`.
    ours = set().union(*map(_words, image.split("/")[:-1]))
    other_kind = os.path.splitext(mask)[1].lower() != os.path.splitext(image)[1].lower()
    return other_kind or bool(ours & (_IMAGE_WORDS | SPLIT_NAMES.keys()))


def _find_image_dir(paired: dict[str, str]) -> str | None:
    """The one folder that holds all images and no mask; None if there is none."""
    shared = posixpath.commonpath([posixpath.dirname(image) for image in paired.values()])
    inside = any(mask.startswith(f"{shared}/") for mask in paired)
    return shared if shared and not inside else None
