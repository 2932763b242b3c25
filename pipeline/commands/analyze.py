"""`image-pipeline analyze`: the transform graph of a data set, without TFX."""

import os

import click

from image_pipeline.commands.shared import BEAM, CONFIG, JSON, QUIET, SET, open_terminal, say_json


@click.command(short_help="Compute a data set's transform graph: statistics and classes.")
@click.argument("data_set")
@click.option("--output", "graph_dir", required=True, help="Folder for the transform graph.")
@click.option(
    "--earlier",
    help="Folder of an earlier graph: images that it was made of are not decoded again. "
    "Default: the graph that is replaced.",
)
@CONFIG
@SET
@JSON
@QUIET
@BEAM
def analyze(
    data_set: str,
    graph_dir: str,
    earlier: str | None,
    config_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    beam_flags: tuple[str, ...],
) -> None:
    """Compute the transform graph of a data set: statistics and classes.

    DATA_SET is the folder that ingest wrote. The graph is the same as the pipeline's;
    `image-pipeline inspect` shows it again.
    """
    from image_pipeline.components.dataset.manifest import read_whole_manifest
    from image_pipeline.config import load_config
    from image_pipeline.named_folder import refuse_run
    from image_pipeline.run.engine import choose_engine

    config = load_config(config_path, overrides)
    beam_args = choose_engine(beam_flags, config.dataflow)
    refuse_run(data_set, "analyze")
    read_whole_manifest(data_set)
    with open_terminal(os.path.join(graph_dir, ".analyze.log"), as_json or quiet) as console:
        from image_pipeline.components.feeding.analysis import read_graph
        from image_pipeline.run.analysis import analyze_folder
        from image_pipeline.show.graph import print_graph
        from image_pipeline.show.progress import ComponentProgress

        with ComponentProgress(console) as progress:
            progress.start("analysis")
            summary = analyze_folder(
                data_set, graph_dir, config.view, config.transform, beam_args, earlier=earlier
            )
        print_graph(graph_dir.rstrip("/"), 0, read_graph(graph_dir), console)
        if "earlier" in summary:
            console.print(f"{summary['earlier']}.", soft_wrap=True, markup=False)
    if as_json:
        say_json(summary)
