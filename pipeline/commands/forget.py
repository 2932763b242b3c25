"""`image-pipeline forget`: a data set without some pictures, and a search for their bytes."""

import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from image_pipeline.commands.shared import JSON, open_terminal, say_json

if TYPE_CHECKING:
    from image_pipeline.run.forget import Plan


@click.command(short_help="Take pictures out of a data set, and show that they are gone.")
@click.argument("data_set")
@click.argument("images", nargs=-1)
@click.option(
    "--list",
    "list_file",
    type=click.File("rb"),
    help="Text file with the path of a picture a line.",
)
@click.option("--near", is_flag=True, help="Also pictures that look alike.")
@click.option("--images", "images_dir", help="Where its images are now, if they have moved.")
@click.option(
    "--scan",
    multiple=True,
    metavar="FOLDER",
    help="Search this, too, for the bytes and for models, such as a run's output. May be repeated.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def forget(
    data_set: str,
    images: tuple[str, ...],
    list_file: BinaryIO | None,
    near: bool,
    images_dir: str | None,
    scan: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Take pictures out of a data set with their copies, and search all files for their bytes.

    DATA_SET is the folder that ingest wrote. Each of IMAGES is the path of a picture below the
    images folder, or a file of the same bytes; without any, goes on with what was begun. Says what
    it found, and asks. Then the data set is written without them, reports that show them are
    deleted, and all files are searched. Exit codes: 0 none that was searched holds them, 1 one
    does.

    With --json and without --yes, says what would be forgotten.
    """
    from rich.console import Console

    from image_pipeline.components.options import parse_paths
    from image_pipeline.run.forget import forget_pictures, plan_forgetting

    named = [*images, *(() if list_file is None else parse_paths(list_file.read()))]
    plan, listing = plan_forgetting(data_set, named, near, images_dir, scan)
    if as_json and not yes:
        say_json({"pictures": plan.pictures, "seen": plan.seen, "done": False})
        return
    console = Console(highlight=False, quiet=as_json)
    _print_plan(plan, console)
    if not yes:
        what = "Forget them, and delete reports that show them? This cannot be undone."
        click.confirm(what, abort=True)
    with open_terminal(os.path.join(data_set, ".ingest.log"), as_json):
        result = forget_pictures(plan, listing)
    if as_json:
        say_json({**result, "done": True})
    else:
        _print_result(result, console)
    sys.exit(1 if result["held"] else 0)


def _print_plan(plan: "Plan", console: Any) -> None:
    """Prints what is to be forgotten, and which models were fed it."""
    from image_pipeline.show.terminal import Table, print_line, print_table
    from image_pipeline.show.words import format_count

    print_line(f"To be forgotten: {format_count(len(plan.pictures), 'picture')}", console)
    rows = [(each.path, each.why, each.became) for each in plan.pictures]
    print_table(Table((), rows, texts=(1, 2)), console)
    for each in plan.seen:
        if each.problem:
            print_line(f"Whether {each.model} was fed them is not known: {each.problem}", console)
            continue
        first, last = (
            f"epoch {epoch} step {step}" for epoch, step in (each.times[0], each.times[-1])
        )
        times = format_count(len(each.times), "time")
        print_line(f"{each.model} was fed {each.path} {times}, {first} to {last}", console)


def _print_result(result: dict[str, Any], console: Any) -> None:
    """Prints what was done, and what the search found."""
    from image_pipeline.show.terminal import print_line, print_rows
    from image_pipeline.show.words import format_bytes, format_count

    data_set = result["data_set"]
    before, now = data_set["written_before"], data_set["written"]
    searched = f"{format_count(result['files'], 'file')}, {format_bytes(result['bytes'])}"
    print_rows([("records", f"{before:,} before, {now:,} now"), ("searched", searched)], console)
    if count := result["versions"]:
        indices = format_count(count, "earlier version")
        print_line(f"only their ids are left in the indices of {indices}", console)
    for path in result["sums"]:
        print_line(
            f"{path} holds no picture, but may have the sums of their pixels until the next "
            "`analyze`; or delete it",
            console,
        )
    for path in result["deleted"]:
        print_line(f"deleted, since it showed or kept them: {path}", console)
    for each in result["held"]:
        print_line(f"STILL HOLDS {', '.join(each.pictures)}: {each.file} ({each.way_out})", console)
    for path, why in result["unread"].items():
        print_line(f"not searched: {path}: {why}", console)
    for path in result["unsought"]:
        print_line(f"not searched for: {path}, of too few, too plain or unknown bytes", console)
    for each in result["pictures"]:
        if each.original:
            print_line(f"the original is still among the images: {each.path}", console)
    if not result["held"]:
        print_line("No file that was searched holds them.", console)
