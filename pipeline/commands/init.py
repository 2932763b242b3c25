"""`image-pipeline init`: a starter configuration from a look at a folder of images."""

import contextlib
import dataclasses
import functools
import itertools
import math
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from image_pipeline.commands.shared import FOLLOW_LINKS, FiniteRange, quiet_libraries, say

_PROGRAM = "image-pipeline"
_FORECAST_FILES = 200  # that are prepared on trial


@click.command(short_help="Look at images, and write a configuration that suits them.")
@click.argument("images_dir", metavar="IMAGES")
@click.option("--output", "output_path", default="config.yaml", show_default=True)
@click.option(
    "--root-dir",
    help="The folder that a table's paths start from, and stay in (ingest.root_dir).",
)
@FOLLOW_LINKS
@click.option(
    "--max-bad-fraction",
    "bad_fraction",
    type=FiniteRange(0, 1),
    help="The share of the images that may be lost (ingest.max_bad_fraction); 0.01 by default.",
)
@click.option(
    "--minutes",
    type=FiniteRange(min=0, min_open=True),
    default=10,
    show_default=True,
    help="What training may take here; chooses the network, its input and the epochs.",
)
@click.option("--yes", is_flag=True, help="Write what was understood without asking.")
def init(
    images_dir: str,
    output_path: str,
    root_dir: str | None,
    follow_links: bool,
    bad_fraction: float | None,
    minutes: float,
    yes: bool,
) -> None:
    """Look at a folder, a table or a generator, and write a starter configuration for it.

    Shows what it found: classes and splits by names, sizes, duplicates, what an ingest will take
    by some of the images, which it prepares on trial, and what training will take by some steps of
    it. Asks what cannot be known before it writes the file. Of a generator, runs the first items.
    """
    from image_pipeline.components.meaning.options import IngestOptions
    from image_pipeline.components.sources.span_pattern import check_one_source
    from image_pipeline.init.duplicates import estimate_duplicates
    from image_pipeline.init.found_rows import copied_rows, forecast_rows, found_rows, recipe_rows
    from image_pipeline.init.listing import measure_some
    from image_pipeline.init.mirror import look_at_mirrored
    from image_pipeline.init.recipe import Wishes, choose_recipe
    from image_pipeline.init.sizes import measure_sizes
    from image_pipeline.init.starter import Answers, write_starter
    from image_pipeline.show.html import write_output

    _check_new(output_path)
    check_one_source(images_dir)
    given = IngestOptions(root_dir=root_dir, follow_links=follow_links)
    # What is read may be in the folder that is given.
    images_dir, layout, source, refs = _read(images_dir, given, yes)
    layout = dataclasses.replace(layout, follow_links=follow_links)
    sizes: Any = measure_sizes(source, refs)
    _check_guess(images_dir, layout, source, sizes)
    has_files = layout.generator is None and layout.video is None
    some: Any = measure_some(source, refs) if has_files else []
    # Copies are found by their sizes, so not in a sample.
    copies = estimate_duplicates(source, refs) if has_files and len(some) == len(refs) else None
    _show(found_rows(layout, sizes, copies))
    # Training needs something to learn.
    is_labelled = bool(layout.classes or layout.has_masks or layout.values)
    kind, count = layout.kind_of_label, len(layout.classes)
    measure: Any = functools.cache(_measure_by(kind, count)) if is_labelled else None
    labelled = IngestOptions(label_pattern=layout.label_pattern)
    mirrored = look_at_mirrored(source, some, labelled) if kind == "classes" else None
    wishes = Wishes(mirrored=not (mirrored and mirrored.changes_class), minutes=minutes)
    recipe = choose_recipe(layout, sizes, wishes, measure)
    if not yes and sizes.sound is None:
        with _explain_end_of_input():
            wishes = _ask(recipe.view, wishes)
        recipe = choose_recipe(layout, sizes, wishes, measure)
    if is_labelled:
        _show(recipe_rows(recipe, mirrored))
    answers = Answers() if bad_fraction is None else Answers(bad_fraction=bad_fraction)
    write = functools.partial(write_starter, layout, sizes, recipe)
    if has_files:
        text = write(answers)
        forecast, rehearse = _forecast(images_dir, layout, source, some, text, len(refs))
        _show(forecast_rows(forecast))
        _check_loss(images_dir, layout, forecast, answers.bad_fraction)
        answers = _find_working(layout, write, answers, rehearse)
        _show(copied_rows(answers.copied))
    if not yes:
        with _explain_end_of_input():
            wanted = click.confirm(f"Write {output_path}?", default=True)
        if not wanted:
            say("Nothing was written.", err=True)
            sys.exit(1)
    write_output(output_path, write(answers).encode())
    verb = "run" if is_labelled else "ingest"
    say(
        f"{output_path} is written. Next: {_name_program()} {verb} "
        f"--images {shlex.quote(images_dir)} --output out --config {shlex.quote(output_path)}"
    )


def _name_program() -> str:
    """What starts this program again: its path, where its name alone does not."""
    called = sys.argv[0]
    is_on_path = shutil.which(_PROGRAM) is not None
    return _PROGRAM if is_on_path or os.path.basename(called) != _PROGRAM else shlex.quote(called)


def _read(images_dir: str, given: Any, yes: bool) -> tuple[str, Any, Any, list[Any]]:
    """What is given, or the part of it that is meant: its name, layout, source and references."""
    from image_pipeline.components import files
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.meaning.meanings import UnclearLayout
    from image_pipeline.components.sources.source_kinds import kind_of

    if kind_of(images_dir).has_rows:
        return _read_table(images_dir, given)
    try:
        return _read_folder(images_dir, given)
    except UnclearLayout as unclear:
        if yes:
            raise
        with _explain_end_of_input():
            choice: Any = _choose(unclear)
    if choice.images and os.path.isfile(images_dir):  # What is in an archive cannot be given.
        raise UserError(f"For {choice.words}, {choice.say(images_dir)}.")
    if choice.images:
        return _read(files.join(images_dir, choice.images), given, yes)
    return _read_folder(images_dir, given, choice.meaning)


def _choose(unclear: Any) -> Any:
    """Asks which of its meanings a folder has."""
    say(f"The folder may mean several things: {unclear.found}.")
    for number, choice in enumerate(unclear.choices, 1):
        say(f"  {number}  {choice.words}")
    numbers = click.IntRange(1, len(unclear.choices))
    return unclear.choices[click.prompt("Which is meant?", type=numbers) - 1]


def _read_folder(
    images_dir: str, given: Any, chosen: Any = None
) -> tuple[str, Any, Any, list[Any]]:
    from image_pipeline.components.meaning.complete_options import refuse_other_records
    from image_pipeline.components.meaning.counted_folders import list_images_of
    from image_pipeline.components.meaning.open_source import open_source
    from image_pipeline.components.meaning.options import IngestOptions
    from image_pipeline.init.layout import find_annotated, guess_layout, split_pairs
    from image_pipeline.init.listing import list_files

    refuse_other_records(images_dir)
    source = open_source(images_dir, given)
    refs = list_files(source)
    paths = list(refs)
    layout = find_annotated(refs.values()) or guess_layout(paths, images_dir, chosen)
    if layout.masks is None:
        images = list_images_of(paths)
        own = [refs[path] for path in images if not path.startswith(layout.leave_out)]
        return images_dir, *_open_videos(layout, source, own, given.follow_links)
    from image_pipeline.components.meaning.label_map import find_label_map
    from image_pipeline.components.meaning.mask_levels import read_levels
    from image_pipeline.components.sources.reading import try_read

    images, masks = split_pairs(paths, layout.masks)

    def shown(as_colors: bool = False) -> list[int | str]:
        most_bytes = IngestOptions().prepare.max_file_bytes
        return read_levels(masks, lambda path: try_read(refs[path], source, most_bytes), as_colors)

    levels = shown()
    if named := find_label_map(images_dir, paths, shown):
        what = "colours" if named.has_colors else "levels"
        told = f"{named.path} names the classes and {what} of masks{named.say_unnamed()}"
        told = named.doubt or told
        classes = {} if named.doubt else named.classes
        layout = dataclasses.replace(
            layout, mask_classes=classes, inferred=(*layout.inferred, told)
        )
    layout = dataclasses.replace(layout, images=len(images), levels=levels)
    return images_dir, layout, source, [refs[path] for path in images]


def _open_videos(
    layout: Any, source: Any, refs: list[Any], follow_links: bool
) -> tuple[Any, Any, list[Any]]:
    """Of videos, their first frames; of images, what is given."""
    from image_pipeline.components.sources.frames import VIDEO_ENDINGS, Frames
    from image_pipeline.components.sources.options import VideoOptions

    if not refs or not refs[0].path.lower().endswith(VIDEO_ENDINGS):
        return layout, source, refs
    videos = Frames(source, VideoOptions(), follow_links)
    firsts = [frame for ref in refs for frame in itertools.islice(videos.list_frames(ref), 1)]
    return dataclasses.replace(layout, video=videos.options), videos, firsts


def _read_table(table: str, given: Any) -> tuple[str, Any, Any, list[Any]]:
    from image_pipeline.init.table_layout import read_layout

    return table, *read_layout(table, given)


def _check_new(output_path: str) -> None:
    from image_pipeline.components.errors import UserError

    if os.path.exists(output_path):
        raise UserError(
            f"{output_path!r} already exists; choose another --output, or move it away."
        )
    folder = os.path.dirname(output_path) or "."
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise UserError(f"{folder!r} must be a folder that can be written to; make it first.")


def _check_guess(images_dir: str, layout: Any, source: Any, sizes: Any) -> None:
    """Refuses a folder without images, and one whose masks' names follow no one rule."""
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.meaning.masks import explain_masks
    from image_pipeline.components.sources.folder import OUTSIDE
    from image_pipeline.init.found_rows import say_unread

    if layout.masks is not None and layout.masks.templates is None:
        raise UserError(explain_masks(images_dir, layout.masks))
    if sizes is None:
        found = layout.images + layout.others
        outside = sum(ref.problem == OUTSIDE for ref in source.list())
        links = (
            f" {outside:,} links lead out of it: --follow-links follows them." if outside else ""
        )
        unread = f" that is read; {say_unread(layout)}"
        raise UserError(
            f"{images_dir!r} must hold images, but none of its {found:,} files is one"
            f"{unread if layout.unread else ''}.{links}"
        )


@contextlib.contextmanager
def _explain_end_of_input() -> Iterator[None]:
    """Where nobody answers, `--yes` does."""
    from image_pipeline.components.errors import UserError

    try:
        yield
    except click.Abort as error:
        say("")  # The question stands on a line that has not ended.
        raise UserError(
            "A question was not answered, so nothing was written; --yes takes the proposed answers."
        ) from error


def _ask(view: tuple[int, int, int], wishes: Any) -> Any:
    """What paths and headers do not say: of which size the views are, and what a mirror changes."""
    shorter = min(view[:2])
    side = click.prompt(
        "Shorter side of the model's input in pixels; half of it trains four times as fast",
        default=shorter,
        type=click.IntRange(1, 4096),
    )
    mirrored = click.confirm(
        "Is a mirrored image as good as the image itself?", default=wishes.mirrored
    )
    side_px = side if side != shorter else None
    return dataclasses.replace(wishes, side_px=side_px, mirrored=mirrored)


def _measure_by(kind: str, classes: int) -> Callable[[str, int, int, int], float]:
    """What measures a step of a network for labels of a kind."""

    def measure(*network: Any) -> float:
        say("Some steps of training are measured …", err=True)
        with quiet_libraries("init"):
            from image_pipeline.components.training.profile import measure_step

            return measure_step(kind, classes, *network)

    return measure


def _forecast(
    images_dir: str, layout: Any, source: Any, refs: list[Any], text: str, images: int
) -> tuple[Any, Callable[[str], None]]:
    """What an ingest with this configuration will take, judged by some.

    And what raises as an ingest with a configuration does, if all images are few.
    """
    import yaml

    from image_pipeline.components.ingest.forecast import forecast_files, rehearse
    from image_pipeline.components.meaning.listing import list_images
    from image_pipeline.components.meaning.open_source import open_complete
    from image_pipeline.components.meaning.options import IngestOptions
    from image_pipeline.components.sources.understood import collect
    from image_pipeline.init.duplicates import are_few

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
    forecast = forecast_files(source, refs, options, _FORECAST_FILES, each_stands_for=each)

    def rehearse_text(other: str) -> None:
        written = IngestOptions.model_validate(yaml.safe_load(other)["ingest"])
        placed = {name: getattr(written, name) for name in ("splits", "stratify", "duplicates")}
        if each == 1.0 and are_few(refs):
            rehearse(source, refs, options.model_copy(update=placed))

    noticed = (*noticed, *forecast.noticed)
    return dataclasses.replace(forecast, noticed=noticed), rehearse_text


def _find_working(
    layout: Any,
    write: Callable[[Any], str],
    answers: Any,
    rehearse: Callable[[str], None],
) -> Any:
    """The answers with which an ingest does not fail.

    Of tiny sets, with other shares; of splits of copies, with these.
    """
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.ingest.plan import EmptySplit
    from image_pipeline.init.layout import choose_shares

    shares = [None] if layout.splits else [None, choose_shares(layout), {"train": 0.5, "eval": 0.5}]
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


def _check_loss(images_dir: str, layout: Any, forecast: Any, accepted: float) -> None:
    """Refuses to write a configuration with which an ingest would lose images, and so fail."""
    from image_pipeline.components.errors import UserError

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
        f"{accepted:.1%} fails, so nothing was written. Mend what is wrong"
        + f", or give --max-bad-fraction={share:g} to accept the loss" * (bad < 1)
        + "."
    )


def _show(rows: list[tuple[str, str]]) -> None:
    for name, text in rows:
        say(f"{name:<18}{text}")
