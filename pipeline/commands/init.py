"""`image-pipeline init`: a starter configuration from a look at a folder of images."""

import contextlib
import dataclasses
import functools
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from image_pipeline.commands.shared import FOLLOW_LINKS, FiniteRange, quiet_libraries, say
from image_pipeline.components.errors import UserError

if TYPE_CHECKING:
    from image_pipeline.components.meaning.meanings import Choice, UnclearLayout
    from image_pipeline.init.recipe import Wishes

_PROGRAM = "image-pipeline"


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
    from image_pipeline.init.found_rows import copied_rows, forecast_rows, found_rows, recipe_rows
    from image_pipeline.init.mirror import look_at_mirrored
    from image_pipeline.init.recipe import Wishes, choose_recipe
    from image_pipeline.init.sizes import measure_sizes
    from image_pipeline.init.starter import Answers, write_starter
    from image_pipeline.init.survey import (
        check_guess,
        check_loss,
        estimate_duplicates,
        find_working,
        forecast,
        measure_some,
        read_images,
    )
    from image_pipeline.show.html import write_output

    _check_new(output_path)
    check_one_source(images_dir)
    given = IngestOptions(root_dir=root_dir, follow_links=follow_links)
    # What is read may be in the folder that is given.
    images_dir, layout, source, refs = read_images(images_dir, given, None if yes else _choose)
    layout = dataclasses.replace(layout, follow_links=follow_links)
    sizes = check_guess(images_dir, layout, source, measure_sizes(source, refs))
    has_files = layout.generator is None and layout.video is None
    some = measure_some(source, refs) if has_files else []
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
        expected, rehearse = forecast(images_dir, layout, source, some, text, len(refs))
        _show(forecast_rows(expected))
        check_loss(images_dir, layout, expected, answers.bad_fraction)
        answers = find_working(layout, write, answers, rehearse)
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


def _choose(unclear: "UnclearLayout") -> "Choice":
    """Asks which of its meanings a folder has."""
    say(f"The folder may mean several things: {unclear.found}.")
    for number, choice in enumerate(unclear.choices, 1):
        say(f"  {number}  {choice.words}")
    numbers = click.IntRange(1, len(unclear.choices))
    with _explain_end_of_input():
        return unclear.choices[click.prompt("Which is meant?", type=numbers) - 1]


def _check_new(output_path: str) -> None:
    if os.path.exists(output_path):
        raise UserError(
            f"{output_path!r} already exists; choose another --output, or move it away."
        )
    folder = os.path.dirname(output_path) or "."
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise UserError(f"{folder!r} must be a folder that can be written to; make it first.")


@contextlib.contextmanager
def _explain_end_of_input() -> Iterator[None]:
    """Where nobody answers, `--yes` does."""
    try:
        yield
    except click.Abort as error:
        say("")  # The question stands on a line that has not ended.
        raise UserError(
            "A question was not answered, so nothing was written; --yes takes the proposed answers."
        ) from error


def _ask(view: tuple[int, int, int], wishes: "Wishes") -> "Wishes":
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


def _show(rows: list[tuple[str, str]]) -> None:
    for name, text in rows:
        say(f"{name:<18}{text}")
