"""`image-pipeline diff`: what differs between two data sets, file by file."""

import click

from image_pipeline.commands.shared import JSON, say_json


@click.command()
@click.argument("before", metavar="A")
@click.argument("now", metavar="B")
@JSON
def diff(before: str, now: str, as_json: bool) -> None:
    """Compare data set B with the earlier A, file by file: new, gone, relabelled, ….

    Each is the folder that ingest wrote, or the output folder of a run, whose latest data set is
    taken. `report B --against A` shows pictures of what differs.
    """
    from rich.console import Console

    from image_pipeline.components.dataset.changes import find_changes
    from image_pipeline.named_folder import find_latest_data_set
    from image_pipeline.show.changes import print_changes

    found = find_changes(find_latest_data_set(before), find_latest_data_set(now))
    if as_json:
        say_json(vars(found))
    else:
        print_changes(found, Console(highlight=False))
