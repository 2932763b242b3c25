"""`image-pipeline browse`, `preview`: a data set's images, and what training sees of them."""

import contextlib
from collections.abc import Callable
from typing import Any

import click

from image_pipeline.commands.shared import CONFIG, SEED, SET, quiet_libraries, say


def _count_views(default: int) -> Callable[[Callable], Callable]:
    return click.option(
        "--epochs",
        default=default,
        show_default=True,
        type=click.IntRange(1, 50),
        help="Training views of each record.",
    )


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
@_count_views(3)
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


_ENDINGS = (".png", ".html")


@click.command(short_help="Draw what training sees of some images.")
@click.argument("folder", metavar="DATA")
@CONFIG
@SET
@click.option("--records", default=8, show_default=True, type=click.IntRange(1, 200))
@_count_views(4)
@click.option("--split", default="train", show_default=True, help="Split to take records from.")
@SEED
@click.option(
    "--output",
    "output_path",
    default="preview.png",
    show_default=True,
    help="The sheet: .png, or .html for a self-contained page.",
)
def preview(
    folder: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    records: int,
    epochs: int,
    split: str,
    seed: int | None,
    output_path: str,
) -> None:
    """Draw what training sees: stored images beside their eval and train views.

    DATA is the folder that ingest wrote, or the output folder of a run. For a run, its options
    are used (--config replaces them, --set changes them), and the model's input is drawn as well.
    The records are spread over the classes; the views are the pixels that training gets.
    """
    if not output_path.endswith(_ENDINGS):
        raise click.UsageError(f"--output must end in .png or .html, got {output_path!r}.")
    from image_pipeline.named_folder import find_source, list_split
    from image_pipeline.run_config import read_config
    from image_pipeline.show.html import write_output
    from image_pipeline.show.words import describe_steps

    source = find_source(folder)
    config = read_config(source, config_path, overrides)
    shards = [list_split(source.data_dir, split)]
    seed = config.training.seed if seed is None else seed
    steps, options = describe_steps(config.feeding.steps), (config.view, config.feeding)
    with quiet_libraries("preview"):
        from image_pipeline.preview.plots import save_sheet
        from image_pipeline.preview.samples import read_views
        from image_pipeline.report.page import GROUPS, render_page
        from image_pipeline.report.pictures import draw_views

        views = read_views(shards, *options, source.graph_dir, records, epochs, seed)
        if output_path.endswith(".html"):
            values = {"absent": {}, "views": draw_views(views, config, split, seed)}
            title = f"What training sees of {source.data_dir}"
            write_output(output_path, render_page(title, {"Views": GROUPS["Views"]}, values))
        else:
            title = f"{source.data_dir}, split {split}, seed {seed}"
            save_sheet(output_path, views, [title, *steps])
    say("\n".join([*steps, output_path]))
