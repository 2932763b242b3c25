"""`image-pipeline report`, `diff`, `history`, `inspect`: what data sets, runs and graphs are."""

import click

from image_pipeline.commands.shared import JSON, quiet_libraries, say, say_json


@click.command()
@click.argument("folder", metavar="OUT")
@click.option("--against", metavar="OTHER", help="An earlier OUT: the report shows what changed.")
@click.option(
    "--output",
    "output_path",
    default="report.html",
    show_default=True,
    help="The page: a single, self-contained HTML file.",
)
@JSON
def report(folder: str, against: str | None, output_path: str, as_json: bool) -> None:
    """Summarise a data set or a run on one HTML page.

    OUT is the folder that ingest wrote, or the output folder of a run. The page opens from disk and
    needs no network. Pixels are measured on a sample; the page says how large it is.
    """
    if not output_path.endswith(".html"):
        raise click.UsageError(f"--output must end in .html, got {output_path!r}.")
    with quiet_libraries("report"):
        from image_pipeline.components.evaluation.facts import seal_evaluation
        from image_pipeline.report.page import write_report

        figures = write_report(folder, against, output_path)
        if figures["evaluation"]:
            figures["evaluation"] = seal_evaluation(figures["evaluation"])
    if as_json:
        say_json(figures | {"output": output_path})
        return
    for notice in figures["notices"]:
        say(f"{notice.section}: {notice.text}")
    say(output_path)


@click.command()
@click.argument("before", metavar="A")
@click.argument("now", metavar="B")
@JSON
def diff(before: str, now: str, as_json: bool) -> None:
    """Compare data set B with the earlier A, file by file: new, gone, relabelled, ….

    Each is the folder that ingest wrote, or the output folder of a run, whose latest data set is
    taken; or a version of a data set, as in `diff data@2 data`, which has no images any more: a
    renamed file then counts as gone and new. `report B --against A` shows pictures of what differs.
    """
    from rich.console import Console

    from image_pipeline.components.dataset.changes import find_changes
    from image_pipeline.components.dataset.versions import find_version
    from image_pipeline.named_folder import find_latest_data_set
    from image_pipeline.show.changes import print_changes

    was, is_now = (find_version(each) or find_latest_data_set(each) for each in (before, now))
    found = find_changes(was, is_now)
    if as_json:
        say_json(vars(found))
    else:
        print_changes(found, Console(highlight=False))


@click.command(short_help="List the runs in OUT, or the versions of a data set.")
@click.argument("folder", metavar="OUT")
@JSON
def history(folder: str, as_json: bool) -> None:
    """List the runs in OUT, the latest first: options that changed, steps, scores, lineage.

    OUT is the output folder of runs; TFX's metadata says what they did, `facts.json` how good their
    models are. Or it is a data set's folder: then each of its versions, and what it changed.
    """
    from image_pipeline.components.dataset.manifest import has_manifest

    if has_manifest(folder):
        _list_versions(folder, as_json)
        return
    from image_pipeline.components.extras import need

    need("tfx", "`image-pipeline history`")
    from image_pipeline.show.history import history_lines, read_past

    described = read_past(folder)
    if as_json:
        say_json({"runs": described})
    else:
        say("\n".join(history_lines(described)).rstrip())


def _list_versions(data_dir: str, as_json: bool) -> None:
    from rich.console import Console

    from image_pipeline.components.dataset.versions import list_kept, read_history
    from image_pipeline.show.terminal import Table, print_table

    versions, kept = read_history(data_dir).versions[::-1], list_kept(data_dir)
    if as_json:
        say_json({"versions": versions, "kept": sorted(kept)})
        return
    if not versions:
        say(f"{data_dir} has no history: only what `ingest` and `update` write notes its versions.")
        return
    places = dict.fromkeys(kept, "index") | {versions[0].manifest: "there"}
    rows = [
        (
            *map("{:,}".format, (each.number, each.before, each.added, each.removed, each.after)),
            ", ".join(f"{kind} {count:,}" for kind, count in each.changed.items()),
            f"{each.manifest[:16]}…",
            places.get(each.manifest, ""),
        )
        for each in versions
    ]
    heads = ("version", "before", "added", "removed", "after", "changed", "manifest", "kept")
    print_table(Table(heads, rows, texts=(5, 6, 7)), Console(highlight=False))


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
