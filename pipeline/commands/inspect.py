"""`image-pipeline inspect`: what a transform graph takes, and what it was made of."""

import dataclasses

import click

from image_pipeline.commands.shared import JSON
from image_pipeline.components.json_text import to_json


@click.command()
@click.argument("folder", metavar="OUT")
@JSON
def inspect(folder: str, as_json: bool) -> None:
    """Show the contract of a transform graph: input, statistics, classes, origin.

    OUT is the output folder of a run, whose latest transform graph is shown, or the folder of a
    transform graph. Only files in the graph's folder are read.
    """
    from rich.console import Console

    from image_pipeline.show.graph import find_graph, print_graph, read_graph

    found = find_graph(folder)
    graph = read_graph(found.path)
    if as_json:
        click.echo(to_json(dataclasses.asdict(found) | graph))
    else:
        print_graph(found, graph, Console(highlight=False))
