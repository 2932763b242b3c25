"""`image-pipeline quarantine`: which files were rejected and why, and another try for them."""

import os

import click

from image_pipeline.commands.shared import BEAM, CONFIG, IMAGES, JSON, SET, open_terminal
from image_pipeline.components.json_text import to_json


@click.group()
def quarantine() -> None:
    """List rejected files, and retry those that have been repaired."""


@quarantine.command("list")
@click.argument("data_set")
@JSON
def list_quarantine(data_set: str, as_json: bool) -> None:
    """List the files that ingest rejected: path, reason and message.

    DATA_SET is the folder that ingest wrote, or the output folder of a run, whose latest data set
    is taken.
    """
    from image_pipeline.named_folder import find_latest_data_set
    from image_pipeline.show.quarantine import print_quarantine, read_quarantine

    reasons, lines = read_quarantine(find_latest_data_set(data_set))
    if as_json:
        click.echo(to_json({"reasons": reasons, "files": lines}))
    else:
        print_quarantine(reasons, lines)


@quarantine.command()
@IMAGES
@click.option("--output", "output_dir", required=True, help="Folder of the data set.")
@CONFIG
@SET
@JSON
@BEAM
def retry(
    images_dir: str,
    output_dir: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    beam_flags: tuple[str, ...],
) -> None:
    """Add the rejected files that have been repaired since.

    Only these are read again; all other images are taken from the data set, and the result is what
    an ingest of the whole repaired folder would give, by the version that wrote the data set. The
    options are those of the data set; others are refused.
    """
    from image_pipeline.config import load_config
    from image_pipeline.run.engine import choose_engine
    from image_pipeline.show.quarantine import check_data_set

    is_given = config_path is not None or bool(overrides)
    config = load_config(config_path, overrides)
    options = config.ingest if is_given else None
    beam_args = choose_engine(beam_flags, config.dataflow)
    check_data_set(output_dir)
    with open_terminal(os.path.join(output_dir, ".ingest.log")) as console:
        from image_pipeline.run.ingest import print_retry, retry_folder

        summary = retry_folder(images_dir, output_dir, options, beam_args)
        if not as_json:
            print_retry(summary, console)
    if as_json:
        click.echo(to_json(summary))
