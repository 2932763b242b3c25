"""Reads what `init` is given, and tries out the ingest that it would write a configuration for."""

import collections
import dataclasses
import hashlib
import itertools
import math
import os
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import yaml

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.ingest.forecast import Forecast, forecast_files, rehearse
from image_pipeline.components.ingest.plan import EmptySplit
from image_pipeline.components.meaning.complete_options import refuse_other_records
from image_pipeline.components.meaning.counted_folders import list_images_of
from image_pipeline.components.meaning.label_map import find_label_map, read_levels
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.masks import explain_masks
from image_pipeline.components.meaning.meanings import Choice, Meaning, UnclearLayout
from image_pipeline.components.meaning.open_source import open_complete, open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import OUTSIDE, Folder
from image_pipeline.components.sources.frames import VIDEO_ENDINGS, Frames
from image_pipeline.components.sources.options import VideoOptions
from image_pipeline.components.sources.reading import try_read
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.understood import collect
from image_pipeline.init.found_rows import say_unread
from image_pipeline.init.layout import (
    Layout,
    choose_shares,
    find_annotated,
    guess_layout,
    split_pairs,
)
from image_pipeline.init.sizes import Sizes
from image_pipeline.init.starter import Answers
from image_pipeline.init.table_layout import read_layout

# With more local files, only some of them are asked for their sizes: a look at a million of them
# takes seconds.
_MANY = 50_000
_SOME = 20_000
_FORECAST_FILES = 200  # that are prepared on trial
# Most that is read to find copies; whole groups of files of one size are.
_MOST_FILES = 1000
_MOST_BYTES = 200 * 2**20


def read_images(
    images_dir: str, given: IngestOptions, choose: Callable[[UnclearLayout], Choice] | None
) -> tuple[str, Layout, Source, list[ImageRef]]:
    """Reads what is given, or the part of it that is meant.

    Args:
      images_dir: a folder, a table or whatever else ingest takes.
      given: the options that are known.
      choose: asks which of its meanings a folder has; None to raise instead.

    Returns:
      The name of what is meant, its layout, its source and the references to its images.

    Raises:
      UnclearLayout: if a folder may mean several things, and nobody is to be asked.
      UserError: if it cannot be read.
    """
    if kind_of(images_dir).has_rows:
        return images_dir, *read_layout(images_dir, given)
    try:
        return images_dir, *_read_folder(images_dir, given)
    except UnclearLayout as unclear:
        if choose is None:
            raise
        choice = choose(unclear)
    if choice.images and os.path.isfile(images_dir):  # What is in an archive cannot be given.
        raise UserError(f"For {choice.words}, {choice.say(images_dir)}.")
    if choice.images:
        return read_images(files.join(images_dir, choice.images), given, choose)
    return images_dir, *_read_folder(images_dir, given, choice.meaning)


def _read_folder(
    images_dir: str, given: IngestOptions, chosen: Meaning | None = None
) -> tuple[Layout, Source, list[ImageRef]]:
    refuse_other_records(images_dir)
    source = open_source(images_dir, given)
    refs = list_files(source)
    paths = list(refs)
    layout = find_annotated(refs.values()) or guess_layout(paths, images_dir, chosen)
    if layout.masks is None:
        images = list_images_of(paths)
        own = [refs[path] for path in images if not path.startswith(layout.leave_out)]
        if not own or not own[0].path.lower().endswith(VIDEO_ENDINGS):
            return layout, source, own
        videos = Frames(source, VideoOptions(), given.follow_links)
        firsts = [frame for ref in own for frame in itertools.islice(videos.list_frames(ref), 1)]
        return dataclasses.replace(layout, video=videos.options), videos, firsts

    images, masks = split_pairs(paths, layout.masks)

    def shown(as_colors: bool = False) -> list[int | str]:
        most_bytes = IngestOptions().prepare.max_file_bytes
        return read_levels(masks, lambda path: try_read(refs[path], source, most_bytes), as_colors)

    levels = shown()
    if named := find_label_map(images_dir, paths, shown):
        what = "colours" if named.has_colors else "levels"
        sentence = f"{named.path} names the classes and {what} of masks{named.say_unnamed()}"
        sentence = named.doubt or sentence
        classes = {} if named.doubt else named.classes
        layout = dataclasses.replace(
            layout, mask_classes=classes, inferred=(*layout.inferred, sentence)
        )
    layout = dataclasses.replace(layout, images=len(images), levels=levels)
    return layout, source, [refs[path] for path in images]


def list_files(source: Source) -> dict[str, ImageRef]:
    """All files that can be read, by their paths; of very many, without their sizes."""

    def by_path(refs: Iterable[ImageRef]) -> dict[str, ImageRef]:
        return {ref.path: ref for ref in refs if ref.problem is None}

    if not (isinstance(source, Folder) and files.is_local(source.root)):
        return by_path(source.list())
    refs = by_path(source.list_unmeasured())
    return refs if len(refs) > _MANY else by_path(map(source.measure, refs.values()))


def measure_some(source: Source, refs: Sequence[ImageRef]) -> Sequence[ImageRef]:
    """References with sizes: all of them, or a random sample if they have none yet."""
    if len(refs) <= _MANY or not isinstance(source, Folder) or any(ref.size_bytes for ref in refs):
        return refs
    return [source.measure(ref) for ref in random.Random(0).sample(refs, _SOME)]


def check_guess(images_dir: str, layout: Layout, source: Source, sizes: Sizes | None) -> Sizes:
    """Refuses a folder without images, and one whose masks' names follow no one rule.

    Raises:
      UserError: naming what is there, and what to do.
    """
    if layout.masks is not None and layout.masks.templates is None:
        raise UserError(explain_masks(images_dir, layout.masks))
    if sizes is not None:
        return sizes
    found = layout.images + layout.others
    outside = sum(ref.problem == OUTSIDE for ref in source.list())
    links = f" {outside:,} links lead out of it: --follow-links follows them." if outside else ""
    unread = f" that is read; {say_unread(layout)}" if layout.unread else ""
    raise UserError(
        f"{images_dir!r} must hold images, but none of its {found:,} files is one{unread}.{links}"
    )


def forecast(
    images_dir: str,
    layout: Layout,
    source: Source,
    refs: Sequence[ImageRef],
    text: str,
    images: int,
) -> tuple[Forecast, Callable[[str], None]]:
    """Forecasts, by some of the images, what an ingest with a configuration takes.

    Returns:
      The forecast; and what raises as an ingest with a configuration does, if all images are few.
    """
    options, each = IngestOptions.model_validate(yaml.safe_load(text)["ingest"]), 1.0
    noticed: tuple[str, ...] = ()
    if layout.columns:  # They were read already, perhaps by other options.
        with collect() as notes:
            source, options = open_complete(images_dir, options, getattr(source, "rows", None))
            refs = list(source.list())
        noticed = tuple(notes.noticed)
    elif layout.has_masks or images == len(refs):
        listing = list_images(images_dir, options)
        source, refs, options = listing.source, list(listing.refs()), listing.options
        noticed = listing.noticed
    else:  # Of very many files, some.
        each = images / len(refs)
    found = forecast_files(source, refs, options, _FORECAST_FILES, each_stands_for=each)

    def rehearse_text(other: str) -> None:
        written = IngestOptions.model_validate(yaml.safe_load(other)["ingest"])
        placed = {name: getattr(written, name) for name in ("splits", "stratify", "duplicates")}
        if each == 1.0 and are_few(refs):
            rehearse(source, refs, options.model_copy(update=placed))

    return dataclasses.replace(found, noticed=(*noticed, *found.noticed)), rehearse_text


def check_loss(images_dir: str, layout: Layout, forecast: Forecast, accepted: float) -> None:
    """Refuses to write a configuration with which an ingest would lose images, and so fail.

    Raises:
      UserError: with the reasons, and what to do.
    """
    # Of a table, all rows were looked at; of files, some were prepared.
    found = layout.images + layout.others if layout.columns else 0
    bad = max(forecast.bad_fraction, layout.others / found if found else 0.0)
    if bad <= accepted:
        return
    reasons = "; ".join(
        f"{each['path']}: {each['message']}" for each in forecast.bad_reasons.values()
    )
    share = min(1.0, math.ceil(bad * 100 + 1) / 100)
    raise UserError(
        f"About {bad:.1%} of {images_dir!r} would be lost"
        f"{f' ({reasons})' if reasons else ''}, and an ingest that loses more than "
        f"{accepted:.1%} fails, so nothing was written. Repair the files"
        + f", or give --max-bad-fraction={share:g} to accept the loss" * (bad < 1)
        + "."
    )


def find_working(
    layout: Layout,
    write: Callable[[Answers], str],
    answers: Answers,
    rehearse: Callable[[str], None],
) -> Answers:
    """The answers with which an ingest does not fail.

    Of tiny sets, with other shares; of splits of copies, with these.

    Raises:
      UserError: if it fails with all of them.
    """
    shares: list[Any] = [None]
    if not layout.splits:
        shares += [choose_shares(layout), {"train": 0.5, "eval": 0.5}]
    tries = [dataclasses.replace(answers, shares=each) for each in shares]
    failed: list[UserError] = []
    for each in tries:
        try:
            rehearse(write(each))
            return each
        except EmptySplit as error:
            failed.append(error)
            if error.copied and not each.copied:
                tries.append(dataclasses.replace(each, copied=error.copied))
        except UserError as error:
            failed.append(error)
            break
    message = str(failed[0]).replace("raise ingest.max_bad_fraction", "give --max-bad-fraction")
    raise UserError(f"An ingest would fail, so nothing was written. {message}") from failed[0]


def estimate_duplicates(source: Source, refs: Iterable[ImageRef], seed: int = 0) -> float:
    """The share of files that have the bytes of another one, which is kept; exact if few are there.

    Only files of one size can be the same: of these groups, some are read, drawn at random.
    """
    groups, total = _group_by_size(refs)
    random.Random(seed).shuffle(groups)
    candidates, files, size_bytes, copies = sum(map(len, groups)), 0, 0, 0
    for group in groups:
        if files and (files + len(group) > _MOST_FILES or size_bytes > _MOST_BYTES):
            break
        some = group[:_MOST_FILES]
        files += len(some)
        size_bytes += sum(ref.size_bytes for ref in some)
        copies += _count_copies(source, some)
    return copies / files * candidates / total if files else 0.0


def are_few(refs: Sequence[ImageRef]) -> bool:
    """Tells whether all files are so few and small that they are read to know what ingest does."""
    return len(refs) <= _MOST_FILES and sum(ref.size_bytes for ref in refs) <= _MOST_BYTES


def _group_by_size(refs: Iterable[ImageRef]) -> tuple[list[Sequence[ImageRef]], int]:
    """The groups of two files and more that have one size, and the number of all files."""
    by_size: dict[int, list[ImageRef]] = collections.defaultdict(list)
    for ref in refs:
        by_size[ref.size_bytes].append(ref)
    groups: list[Sequence[ImageRef]] = [group for group in by_size.values() if len(group) > 1]
    return groups, sum(map(len, by_size.values()))


def _count_copies(source: Source, refs: Sequence[ImageRef]) -> int:
    contents = [try_read(ref, source, PrepareOptions().max_file_bytes) for ref in refs]
    read = [content for content in contents if isinstance(content, bytes)]
    return len(read) - len({hashlib.sha256(content).digest() for content in read})
