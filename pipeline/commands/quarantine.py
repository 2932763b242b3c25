"""`image-pipeline quarantine`: which files were rejected and why, and another try for them."""

import os

import click

from image_pipeline.commands.shared import BEAM, CONFIG, IMAGES, JSON, SET, open_terminal, say_json
from image_pipeline.components.errors import UserError


@click.group()
def quarantine() -> None:
    """List rejected files, and retry those that have been repaired."""


@quarantine.command("list")
@click.argument("data_set")
@JSON
def list_quarantine(data_set: str, as_json: bool) -> None:
    """List the files that ingest rejected: path, reason and message.

    DATA_SET is the folder that ingest wrote, or the output folder of a run, whose latest data set
    is taken. If the last ingest was refused, the files are those that it could not use.
    """
    import collections

    from rich.console import Console

    from image_pipeline.components.dataset import lists, manifest
    from image_pipeline.named_folder import find_latest_data_set, find_refused
    from image_pipeline.show.terminal import Table, print_line, print_rows, print_table

    refused_dir = find_refused(data_set)
    data_dir = refused_dir or find_latest_data_set(data_set)
    if refused_dir is None:
        manifest.read_whole_manifest(data_dir)
    lines = lists.read_list(data_dir, lists.Quarantined)
    counts = collections.Counter(line.reason for line in lines)
    reasons = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    if as_json:
        say_json({"reasons": reasons, "files": lines, "refused": bool(refused_dir)})
        return
    console = Console(highlight=False)
    if refused_dir:
        print_line("The last ingest was refused, and wrote no data set. It cannot use:", console)
    print_rows([(reason, f"{count:,}") for reason, count in reasons.items()], console)
    if lines:
        console.print()
        rows = [(line.path, line.reason, line.message) for line in lines]
        print_table(Table((), rows, texts=(1, 2)), console)
    else:
        print_line("No file is in quarantine.", console)


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
    from image_pipeline.components.dataset.manifest import has_manifest, read_whole_manifest
    from image_pipeline.components.ingest.retry import is_interrupted, retry_work_dir
    from image_pipeline.config import load_config
    from image_pipeline.run.engine import choose_engine
    from image_pipeline.run_folder import RunFolder

    is_given = config_path is not None or bool(overrides)
    config = load_config(config_path, overrides)
    options = config.ingest if is_given else None
    beam_args = choose_engine(beam_flags, config.dataflow)
    # There must be a data set, or an interrupted retry, before anything is written.
    if not has_manifest(output_dir) and RunFolder(output_dir).list_data_sets():
        raise UserError(
            f"{output_dir!r} is a run's folder, whose data sets stay as they are; run again with "
            "the same --images and --output: it ingests what was repaired, too."
        )
    if not is_interrupted(output_dir, retry_work_dir(output_dir)):
        read_whole_manifest(output_dir)
    with open_terminal(os.path.join(output_dir, ".ingest.log")) as console:
        from image_pipeline.run.ingest import print_retry, retry_folder

        summary = retry_folder(images_dir, output_dir, options, beam_args)
        if not as_json:
            print_retry(summary, console)
    if as_json:
        say_json(summary)
