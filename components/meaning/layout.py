"""A folder of images is understood once, when it is listed.

What was inferred becomes options, as if a person had written them, and is printed.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.masks import MaskOptions
from image_pipeline.components.meaning.counted_folders import Tally
from image_pipeline.components.meaning.folder_meaning import find_meaning, find_split_folders
from image_pipeline.components.meaning.label_map import find_label_map, read_levels
from image_pipeline.components.meaning.masks import Masks, explain_masks, find_masks
from image_pipeline.components.meaning.meanings import (
    FIRST_FOLDER,
    IN_FILE_NAMES,
    NO_CLASSES,
    Choice,
    Meaning,
    UnclearLayout,
    choose_eval,
    list_folders,
    list_names,
    say_splits,
)
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.pairs import match_template


def understand(
    images: str, options: IngestOptions, tally: Tally, list_paths: Callable[[], Iterable[str]]
) -> tuple[IngestOptions, tuple[str, ...]]:
    """The options with what the folders say of labels and splits, unless the options do.

    Returns:
      The options, and what was inferred, a sentence each.

    Raises:
      UnclearLayout: if several meanings are possible.
      UserError: if there are masks, and nothing says what they are for.
    """
    if tally.is_stated:
        return options, ()
    if options.masks is not None or options.label_pattern is None:
        meaning = _find_splits_alone(images, options, tally, list_paths)
    elif options.label_pattern != FIRST_FOLDER:
        return options, _say_unused(tally, options)
    else:
        meaning = find_meaning(images, tally, list_paths)
    update: dict[str, Any]
    if meaning.masks is not None:
        masks, sentence = _take_label_map(images, meaning.masks, list_paths)
        left_out = tuple(dict.fromkeys((*options.leave_out, *meaning.leave_out)))
        update = {"masks": masks, "leave_out": left_out}
        return options.model_copy(update=update), (sentence, *meaning.inferred)
    if meaning.kind == IN_FILE_NAMES:
        unlabelled = dataclasses.replace(meaning, label_pattern=None)
        named, none = Choice("the classes there", meaning), Choice("no labels", unlabelled)
        raise UnclearLayout(images, meaning.inferred[0], (named, none))
    update = {"label_pattern": meaning.label_pattern}
    if meaning.leave_out:
        update["leave_out"] = tuple(dict.fromkeys((*options.leave_out, *meaning.leave_out)))
    if meaning.splits and options.split_pattern is None:
        update |= take_splits(images, options, meaning)
    return options.model_copy(update=update), meaning.inferred


def _find_splits_alone(
    images: str, options: IngestOptions, tally: Tally, list_paths: Callable[[], Iterable[str]]
) -> Meaning:
    """The splits of images that have no labels by folders, or masks, as the options say."""
    if options.masks is None and (masks := find_masks(list_paths)):
        raise UserError(explain_masks(images, masks))
    pattern, splits = _find_kept_splits(tally, options)
    words = (f"{say_splits(splits)} are taken as splits",) if splits else ()
    return Meaning(
        kind=NO_CLASSES,
        label_pattern=options.label_pattern,
        split_pattern=pattern,
        splits=splits,
        inferred=words if options.split_pattern is None else (),
    )


def _find_kept_splits(tally: Tally, options: IngestOptions) -> tuple[str | None, dict[str, str]]:
    """As `find_split_folders` finds them in what is not left out."""
    folders = tally.folders().items()
    kept = {parts: n for parts, n in folders if not options.is_left_out("/".join((*parts, "")))}
    return find_split_folders(kept)


def _take_label_map(
    images: str, masks: Masks, list_paths: Callable[[], Iterable[str]]
) -> tuple[MaskOptions, str]:
    """The options of masks whose classes a file names, and what was understood.

    Raises:
      UserError: if there is no such file, or there are other masks than the pairs'.
    """
    if masks.templates is None:
        raise UserError(explain_masks(images, masks))
    image, mask = masks.templates

    def read(path: str) -> bytes | None:
        try:
            return files.read_file(
                files.join(images, path), 0, IngestOptions().prepare.max_file_bytes
            )
        except OSError:
            return None

    @functools.cache
    def shown(as_colors: bool) -> Sequence[int | str]:
        own = (path for path in list_paths() if match_template(mask, path) is not None)
        return read_levels(own, read, as_colors)

    found = find_label_map(images, list_paths(), shown)
    if found is None or found.doubt:
        raise UserError(explain_masks(images, masks, found.doubt if found else ""))
    options = MaskOptions.model_validate({"images": image, "masks": mask, "classes": found.classes})
    named = list_names(found.classes)
    return (
        options,
        f"{mask} are taken as masks of {image}, with the classes of {found.path}: {named}"
        + found.say_unnamed(),
    )


def take_splits(images: str, options: IngestOptions, meaning: Meaning) -> dict[str, Any]:
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


def _say_unused(tally: Tally, options: IngestOptions) -> tuple[str, ...]:
    """Whether folders name splits that the options, which say what the labels are, do not use."""
    if options.split_pattern is not None:
        return ()
    pattern, splits = _find_kept_splits(tally, options)
    if pattern is None:
        return ()
    return (
        f"{list_folders(splits)} are not taken as splits, for ingest.label_pattern is set and "
        f"ingest.split_pattern is not; {pattern!r} would take them",
    )
