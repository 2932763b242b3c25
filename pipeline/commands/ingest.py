"""`image-pipeline ingest`: images to TFRecords, without TFX."""

import os

import click

from image_pipeline.commands.shared import (
    BEAM,
    CONFIG,
    FOLLOW_LINKS,
    IMAGES,
    JSON,
    OUTPUT,
    QUIET,
    SET,
    add_follow_links,
    open_terminal,
    say_json,
)


@click.command(short_help="Write images as shuffled, sharded TFRecords.")
@IMAGES
@OUTPUT
@CONFIG
@SET
@FOLLOW_LINKS
@click.option(
    "--replace",
    is_flag=True,
    help="Replace a finished data set that has other images or options.",
)
@JSON
@QUIET
@BEAM
def ingest(
    images_dir: str,
    output_dir: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    follow_links: bool,
    replace: bool,
    as_json: bool,
    quiet: bool,
    beam_flags: tuple[str, ...],
) -> None:
    """Write a folder of images as shuffled, sharded TFRecords, without TFX.

    The bytes are the same as the pipeline's. An interrupted ingest continues when it is started
    again; a finished one is brought up to date with the same folder of images.
    """
    from image_pipeline.config import load_config
    from image_pipeline.run.engine import choose_engine
    from image_pipeline.run.preflight import check_ingest

    config = load_config(config_path, add_follow_links(overrides, follow_links))
    beam_args = choose_engine(beam_flags, config.dataflow)
    listing = check_ingest(images_dir, output_dir, config.ingest, beam_args)
    with open_terminal(os.path.join(output_dir, ".ingest.log"), as_json or quiet) as console:
        from image_pipeline.run.ingest import ingest_folder, print_ingest
        from image_pipeline.show.ingest_summary import describe_inferred
        from image_pipeline.show.progress import ComponentProgress
        from image_pipeline.show.terminal import print_rows

        print_rows(describe_inferred(listing.options.understood, listing.noticed), console)
        with ComponentProgress(console) as progress:
            progress.start("ingest")
            summary = ingest_folder(listing, output_dir, beam_args, replace)
        print_ingest(summary, output_dir, console)
    if as_json:
        say_json(summary)
