"""`image-pipeline inspect`: what a transform graph takes, and what it was made from."""

import click

from image_pipeline.commands.shared import JSON
from image_pipeline.components.json_text import to_json


@click.command(short_help="Show the contract of a transform graph.")
@click.argument("folder", metavar="OUT")
@JSON
def inspect(folder: str, as_json: bool) -> None:
    """Show the contract of a transform graph: input, statistics, classes, origin.

    OUT is the output folder of a run, whose latest transform graph is shown, or the folder of a
    transform graph. Only files in the graph's folder are read.
    """
    from rich.console import Console

    from image_pipeline.graph_folder import read_graph
    from image_pipeline.named_folder import find_graph
    from image_pipeline.show.graph import print_graph

    path, among = find_graph(folder)
    graph = read_graph(path)
    if as_json:
        told = {"path": path, "among": among, **graph.content, "vocabulary": graph.vocabulary}
        click.echo(to_json(told))
    else:
        print_graph(path, among, graph, Console(highlight=False))
