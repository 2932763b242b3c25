"""`image-pipeline inspect`: what a transform graph takes, and what it was made from."""

import click

from image_pipeline.commands.shared import JSON, say_json


@click.command(short_help="Show the contract of a transform graph.")
@click.argument("folder", metavar="OUT")
@JSON
def inspect(folder: str, as_json: bool) -> None:
    """Show the contract of a transform graph: input, statistics, classes, origin.

    OUT is the output folder of a run, whose latest transform graph is shown, or the folder of a
    transform graph. Only files in the graph's folder are read. Its files are compared with the
    checksums that the analysis noted.
    """
    from rich.console import Console

    from image_pipeline.components.feeding.analysis import (
        check_files,
        read_content,
        read_graph,
        read_vocabulary,
    )
    from image_pipeline.named_folder import find_graph
    from image_pipeline.show.graph import print_graph

    path, among = find_graph(folder)
    graph = read_graph(path)
    check_files(path, graph)
    if as_json:
        content = {"path": path, "among": among, **read_content(path)}
        say_json({**content, "vocabulary": read_vocabulary(path)})
    else:
        print_graph(path, among, graph, Console(highlight=False))
