"""Masks that no word tells: `1st_manual/21_manual1.gif` of `images/21_training.tif`.

Their names begin as images' do, one for each image, and they show few levels.
"""

import collections
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from image_pipeline.components import files
from image_pipeline.components.meaning.label_map import guess_classes, read_levels
from image_pipeline.components.meaning.masks import (
    ENDINGS,
    Masks,
    is_called_mask,
    templates_of,
    with_parents,
)
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.pairs import match_template

_LOSSLESS = (".png", ".tif", ".tiff", ".bmp", ".gif")
_LAST_WORD = re.compile(r"[-_. ][^-_. /]*$")
_MOST_PATHS = 100_000  # that are held in memory; of more, none is looked for
_MOST_TRIED = 20  # files, each of names that are otherwise
_LOOKED_AT = 5  # of the masks of a kind
_FEW = 32  # levels: a photo has more
_ENOUGH = 0.9  # of the masks must have an image
_MOST_LEFT_OUT = 100  # folders or files, as options name them


def find_other_masks(
    images: str, list_paths: Callable[[], Iterable[str]], known: Masks | None
) -> list[Masks]:
    """Looks for masks of the images beside those that are known, if any are.

    Args:
      images: the folder of all.
      list_paths: gives the paths of all files, relative to it, with slashes.
      known: masks that are called so, with templates.

    Returns:
      One for each kind, with the names of classes where masks have two levels.
    """
    named = (path for path in list_paths() if path.lower().endswith(tuple(ENDINGS)))
    paths = list(itertools.islice(named, _MOST_PATHS + 1))
    stems = {os.path.splitext(path)[0] for path in paths}
    if known is not None and known.templates is not None:
        image, mask = known.templates
        free = [path for path in paths if match_template(mask, path) is None]
        own = [path for path in free if match_template(image, path) is not None]
        left = [path for path in set(free).difference(own) if not is_called_mask(path)]
    else:  # Beside the images, with more behind their names.
        left = [p for p in paths if not stems.isdisjoint(_cut(os.path.splitext(p)[0]))]
        own = list(set(paths).difference(left))
    left = sorted(path for path in left if path.lower().endswith(_LOSSLESS))
    if len(paths) > _MOST_PATHS or not left:
        return []
    called: dict[str, list[str]] = collections.defaultdict(list)
    for path in sorted(own):
        stem = os.path.splitext(path)[0].rpartition("/")[2]
        for each in (stem, *_cut(stem)):
            called[each].append(path)
    found: list[Masks] = []
    for _ in range(_MOST_TRIED):
        if not left:
            break
        first, kind = left[0], _LAST_WORD.search(os.path.splitext(left[0])[0])
        of_kind = kind[0] if kind else ""
        fitting = [each for each in _templates(first, called, own) if _fit(each, own, left)]
        templates = max(fitting, key=lambda each: len(_pairs(each, own, left)), default=None)
        taken = [path for path in left if templates and match_template(templates[1], path)]
        taken = taken or [  # None is called so.
            path
            for path in left
            if path.rpartition("/")[0] == first.rpartition("/")[0]
            and os.path.splitext(path)[0].endswith(of_kind)
        ]
        left = sorted(set(left).difference(taken))
        if templates is not None and (levels := _read(images, taken)):
            pairs = _pairs(templates, own, taken)
            image, mask = next(iter(pairs.items()))
            left_out = _leave_out(paths, pairs, templates[0])
            classes = guess_classes(levels)
            found.append(Masks(len(pairs), mask, image, None, templates, left_out, classes))
    return found


def classes_shown(
    images: str, masks: Masks, paths: Iterable[str]
) -> Mapping[str, int | str] | None:
    """Names for the levels of masks that have two; None if ids will do, or nothing is read."""
    own = (path for path in paths if match_template((masks.templates or ("", ""))[1], path))
    return guess_classes(_read(images, list(itertools.islice(own, _LOOKED_AT))))


def _cut(stem: str) -> Iterator[str]:
    """The name without its last word, without its last two, …"""
    while found := _LAST_WORD.search(stem):
        stem = stem[: found.start()]
        if stem and stem[-1] != "/":
            yield stem


def _templates(
    mask: str, called: Mapping[str, Sequence[str]], own: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Templates of a mask and an image whose names begin alike, the longest beginning first."""
    stem = os.path.splitext(mask)[0].rpartition("/")[2]
    beginning = next((each for each in (stem, *_cut(stem)) if each in called), None)
    if beginning is None:
        return
    image = max(called[beginning], key=lambda path: len(os.path.commonpath([path, mask])))
    endings = {os.path.splitext(path)[1] for path in own}
    is_beside = image.rpartition("/")[0] == mask.rpartition("/")[0]
    for images, masks in templates_of(image, mask):
        if is_beside and len(endings) == 1:  # Else images of theirs are masks of other kinds, too.
            yield f"{images.removesuffix('.*')}{min(endings)}", masks
        elif not is_beside:
            yield images, masks


def _pairs(templates: tuple[str, str], own: Iterable[str], masks: Iterable[str]) -> dict[str, str]:
    """The mask of each image that has one."""
    by_key = {match_template(templates[1], path): path for path in masks}
    keys = ((path, match_template(templates[0], path)) for path in own)
    return {path: by_key[key] for path, key in keys if key is not None and key in by_key}


def _fit(templates: tuple[str, str], own: Sequence[str], left: Sequence[str]) -> bool:
    """Whether each mask is of one image, and most images have one."""
    masks = [path for path in left if match_template(templates[1], path) is not None]
    pairs = _pairs(templates, own, masks)
    is_once = len(set(pairs.values())) == len(pairs)
    return is_once and len(pairs) >= _ENOUGH * len(masks) and 2 * len(pairs) >= len(own)


def _read(images: str, masks: Sequence[str]) -> list[int | str]:
    """The levels of some masks; none if they are too many, or cannot be read here."""

    def read(path: str) -> bytes | None:
        try:
            most_bytes = IngestOptions().prepare.max_file_bytes
            return files.read_file(files.join(images, path), 0, most_bytes)
        except OSError:
            return None

    levels = read_levels(masks[:_LOOKED_AT], read)
    return levels if len(levels) <= _FEW else []


def _leave_out(paths: Iterable[str], pairs: Mapping[str, str], image: str) -> tuple[str, ...]:
    """The highest folders, or else files, of what is not a pair; none if they are very many.

    An image in a folder of pairs stays: that it has no mask is reported.
    """
    both = {*pairs, *pairs.values()}
    own = {folder for path in both for folder in with_parents(path.rpartition("/")[0])}
    others = set[str]()
    for path in paths:
        if path not in both:
            folders = with_parents(path.rpartition("/")[0])
            top = next((f"{folder}/" for folder in folders if folder not in own), None)
            if top or match_template(image, path) is None:
                others.add(top or path)
    return tuple(sorted(others)) if len(others) <= _MOST_LEFT_OUT else ()
