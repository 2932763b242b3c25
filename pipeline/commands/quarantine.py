"""`image-pipeline quarantine`: which files were rejected, and why."""

import click

from image_pipeline.commands.shared import JSON, say_json
from image_pipeline.components.errors import UserError


@click.group()
def quarantine() -> None:
    """List rejected files. `update` takes those that have been repaired."""


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


@quarantine.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def retry(arguments: tuple[str, ...]) -> None:
    """Say what this has become."""
    raise UserError(
        "`quarantine retry` is `image-pipeline update DATA_SET` now, which reads all files that "
        "have changed: those that were repaired, and others."
    )
