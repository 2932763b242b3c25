"""`image-pipeline ingest`: images to TFRecords, without TFX."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from image_pipeline.components.ingest.earlier import Compare
    from image_pipeline.components.meaning.listing import Listing

COMPARE = click.option(
    "--compare",
    type=click.Choice(["times", "bytes", "nothing"]),
    default="times",
    show_default=True,
    help="How an image that has not changed is recognised: by its file's size and time; by its "
    "bytes, which are all read; or not at all, so that all images are made again.",
)

VERSIONS = click.option(
    "--versions",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of how many versions that were replaced the indices are kept, from now on; 10 at first.",
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
@COMPARE
@VERSIONS
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
    compare: "Compare",
    versions: int | None,
    as_json: bool,
    quiet: bool,
    beam_flags: tuple[str, ...],
) -> None:
    """Write a folder of images as shuffled, sharded TFRecords, without TFX.

    The bytes are the same as the pipeline's. An interrupted ingest continues when it is started
    again; a finished one is brought up to date with the same folder of images, of which only those
    that have changed are read.
    """
    from image_pipeline.config import load_config
    from image_pipeline.run.engine import choose_engine
    from image_pipeline.run.preflight import check_ingest

    config = load_config(config_path, add_follow_links(overrides, follow_links))
    beam_args = choose_engine(beam_flags, config.dataflow)
    listing = check_ingest(images_dir, output_dir, config.ingest, beam_args)
    _ingest(listing, output_dir, beam_args, replace, compare, versions, as_json, quiet)


@click.command(short_help="Bring a data set up to date with its images.")
@click.argument("data_set")
@click.option("--images", "images_dir", help="Where its images are now, if they have moved.")
@COMPARE
@VERSIONS
@JSON
@QUIET
@BEAM
def update(
    data_set: str,
    images_dir: str | None,
    compare: "Compare",
    versions: int | None,
    as_json: bool,
    quiet: bool,
    beam_flags: tuple[str, ...],
) -> None:
    """Bring a data set up to date with its images: what is new, changed, repaired, renamed or gone.

    DATA_SET is the folder that ingest wrote; its options stay. Only images that have changed are
    read. The result is what an ingest of all of them would write, byte for byte.
    """
    from image_pipeline.components.errors import UserError
    from image_pipeline.components.meaning.meanings import UnclearLayout
    from image_pipeline.run.engine import choose_engine
    from image_pipeline.run.preflight import check_ingest
    from image_pipeline.run.source_note import find_written

    beam_args = choose_engine(beam_flags)
    images, options = find_written(data_set, images_dir)
    try:
        listing = check_ingest(images, data_set, options, beam_args)
    except UnclearLayout as unclear:
        way_out = f"image-pipeline ingest --images {images} --output {data_set} --replace --set …"
        raise UserError(f"{unclear} An update takes no options: use {way_out}") from unclear
    _ingest(listing, data_set, beam_args, images_dir is not None, compare, versions, as_json, quiet)


def _ingest(
    listing: "Listing",
    output_dir: str,
    beam_args: Sequence[str],
    replace: bool,
    compare: "Compare",
    versions: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Ingests, and prints on the way and in the end."""
    with open_terminal(os.path.join(output_dir, ".ingest.log"), as_json or quiet) as console:
        from image_pipeline.run.ingest import ingest_folder, print_ingest
        from image_pipeline.show.ingest_summary import describe_inferred
        from image_pipeline.show.progress import ComponentProgress
        from image_pipeline.show.terminal import print_rows

        print_rows(describe_inferred(listing.options.understood, listing.noticed), console)
        with ComponentProgress(console) as progress:
            progress.start("ingest")
            summary = ingest_folder(listing, output_dir, beam_args, replace, compare, versions)
        print_ingest(summary, output_dir, console)
    if as_json:
        say_json(summary)
