"""`image-pipeline analyze`, `train`: a data set's transform graph, and a model, without TFX."""

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


@click.command(short_help="Train a model, on one machine or on several together.")
@click.argument("data_set")
@click.option("--graph", "graph_dir", required=True, help="Folder of the transform graph.")
@click.option("--output", "output_dir", required=True, help="Folder for the model.")
@CONFIG
@SET
@JSON
@QUIET
def train(
    data_set: str,
    graph_dir: str,
    output_dir: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Train a model on a data set, behind its transform graph, and export it.

    DATA_SET is the folder that ingest wrote, and --graph what `analyze` made of it. The model is
    the one that `run` would train, and `predict` takes OUTPUT for it. An interrupted training goes
    on from its last checkpoint.

    With training.strategy=multi_worker, start it on each machine that TF_CONFIG names, with the
    same arguments.
    """
    from image_pipeline.components import files
    from image_pipeline.components.dataset.manifest import read_whole_manifest
    from image_pipeline.components.training.cluster import read_cluster
    from image_pipeline.config import load_config
    from image_pipeline.init.choose_steps import complete_steps_for
    from image_pipeline.named_folder import find_graph, refuse_run

    config = load_config(config_path, overrides)
    refuse_run(data_set, "train")
    files.check_text(output_dir, "--output")
    config, chosen = complete_steps_for(config, data_set, read_whole_manifest(data_set))
    graph_dir, _ = find_graph(graph_dir)
    cluster = read_cluster()  # Its machines may have one folder, and each has a log of its own.
    task = "" if cluster is None else f"-{cluster.number}"
    log_path = os.path.join(output_dir, f".train{task}.log")
    with open_terminal(log_path, as_json or quiet) as console:
        from image_pipeline.run.train import train_folder
        from image_pipeline.show.progress import ComponentProgress
        from image_pipeline.show.terminal import print_rows

        print_rows([("look at", chosen)] if chosen else [], console)
        with ComponentProgress(console) as progress:
            progress.start("training")
            summary = train_folder(data_set, graph_dir, output_dir, config)
        if summary["metrics"] is None:
            text = f"{summary['worker']} of {summary['workers']}: the chief has the model"
            rows = [("worker", text)]
        else:
            last = {name: values[-1] for name, values in summary["metrics"].items() if values}
            figures = ", ".join(f"{name} {value:.4g}" for name, value in last.items())
            rows = [("model", summary["model"]), ("after the last epoch", figures or "as it was")]
        print_rows(rows, console)
    if as_json:
        say_json(summary)
