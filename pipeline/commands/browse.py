"""`image-pipeline browse`: a page in the browser through a data set."""

import contextlib
from typing import Any

import click

from image_pipeline.commands.shared import CONFIG, SEED, SET, quiet_libraries, say


@click.command()
@click.argument("folder", metavar="DATA")
@click.option(
    "--images", help="What DATA was ingested from, to show originals; as ingest noted by default."
)
@click.option(
    "--graph", help="Transform graph's folder, or a run's, for eval and train views of DATA."
)
@click.option("--model", help="A model, or a run: shows views and batches that it was fed last.")
@CONFIG
@SET
@click.option(
    "--epochs",
    default=3,
    show_default=True,
    type=click.IntRange(1, 50),
    help="Training views of each record.",
)
@SEED
@click.option(
    "--marks",
    "marks_path",
    default="marks.txt",
    show_default=True,
    help="File for the marked paths, one per line; an existing one is continued.",
)
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    help="Port on this machine; any free one by default.",
)
@click.option("--no-open", is_flag=True, help="Only print the page's address.")
def browse(port: int, no_open: bool, **asked: Any) -> None:
    """Look through a data set in the browser, and mark records.

    DATA is the folder that ingest wrote, or the output folder of a run. The page searches by path,
    class, split, reason and size, shows each record's original, stored, eval and train views side
    by side, and writes what is marked to a list, which `ingest.leave_out` and
    `feeding.select.leave_out` take. Views need to know how they are made: by a run's own options
    and graph, by --graph, --config or --set, or by what --model was fed.

    The page is for this machine only, behind a random address. Ctrl-C ends it.
    """
    said = [asked[name] for name in ("graph", "config_path", "seed")]
    if asked["model"] is not None and (asked["overrides"] or said != [None] * 3):
        raise click.UsageError(
            "--model says how views are made; leave out --graph, --config, --set and --seed."
        )
    with quiet_libraries("browse"):
        from image_pipeline.browse.server import Server, open_page
        from image_pipeline.browse.session import Session
        from image_pipeline.show.words import format_count

        session = Session(**asked)
        server = Server(session, port)
    say(f"{format_count(session.catalogue.records, 'record')}: {server.url}")
    say("Ctrl-C ends it.")
    try:
        with quiet_libraries("browse"):
            opened = open_page(server.url, server.is_open)
            with contextlib.nullcontext() if no_open else opened:
                server.serve_forever(poll_interval=0.2)
    finally:
        marked = len(session.marks.paths)
        say(
            f"{format_count(marked, 'path')} marked in {session.marks.path}"
            if marked
            else "No marks."
        )
