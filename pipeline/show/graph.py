"""What a transform graph is, read from the artifact alone and shown to a person."""

import dataclasses
import json
from typing import Any

from rich.console import Console

from image_pipeline.components import contract, files
from image_pipeline.components.errors import UserError
from image_pipeline.run_folder import GRAPHS, RunFolder
from image_pipeline.show.rows import (
    format_classes,
    format_constant_channels,
    format_numbers,
    print_rows,
)
from image_pipeline.show.words import format_count

# What tf.Transform writes, which is not imported: it would take seconds.
_VOCABULARY = f"transform_fn/assets/{contract.LABEL_VOCABULARY}"
_MOST_CLASSES = 50


@dataclasses.dataclass(frozen=True)
class FoundGraph:
    """A transform graph's folder.

    Attributes:
      path: the folder.
      among: how many graphs the output folder has, of which this is the latest; 0 if the folder
        itself was named.
    """

    path: str
    among: int


def find_graph(folder: str) -> FoundGraph:
    """Finds the transform graph that a folder is, or the latest one that a run left in it.

    Raises:
      UserError: if there is none.
    """
    if files.exists(files.join(folder, contract.ANALYSIS)):
        return FoundGraph(folder.rstrip("/"), 0)
    found = RunFolder(folder).list_graphs()
    if not found:
        what = "holds no transform graph" if files.exists(folder) else "does not exist"
        raise UserError(
            f"{folder!r} {what}: there must be {contract.ANALYSIS} in it, or in {GRAPHS}/<number>; "
            "give the --output of `image-pipeline run`, or a transform graph's own folder."
        )
    return FoundGraph(found[-1], len(found))


def read_graph(graph_dir: str) -> dict[str, Any]:
    """Reads what a transform graph says of itself.

    Returns:
      What `analysis.json` holds, and `vocabulary`: the class names in the order of their ids, or
      None if the `preprocessing_fn` made no such vocabulary.

    Raises:
      UserError: if it was not written by the analysis, or by one that said less.
    """
    path = files.join(graph_dir, contract.ANALYSIS)
    try:
        with files.open_input(path) as file:
            analysis = json.loads(file.read())
        missing = sorted(_SHOWN - analysis.keys())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"{graph_dir!r} is no folder of a transform graph: it has no {contract.ANALYSIS}; give "
            "the folder that the analysis wrote, or run `image-pipeline analyze`."
        ) from error
    except (ValueError, AttributeError) as error:
        raise UserError(f"{path!r} is damaged: {error}; run the analysis again.") from error
    if missing:
        raise UserError(
            f"{path!r} lacks {missing}: another version wrote it; run the analysis again."
        )
    return {**analysis, "vocabulary": _read_vocabulary(graph_dir)}


def print_graph(found: FoundGraph, graph: dict[str, Any], console: Console) -> None:
    """Shows what `read_graph` read."""
    which = f" (the latest of {found.among:,})" if found.among else ""
    print_rows([("transform graph", found.path + which)], console)
    print_rows([*_input_rows(graph), *_origin_rows(graph), *_statistics_rows(graph)], console)
    print_rows(_class_rows(graph), console)


_SHOWN = {
    *("view", "channel_order", "color_space", "preprocessing_fn", "function_version"),
    *("code_version", "columns", "manifests", "splits", "fraction", "records_in_splits", "records"),
    *("statistics", "large_statistics", "constant_channels"),
    *("classes", "unknown_label", "unknown_classes"),
}


def _input_rows(graph: dict[str, Any]) -> list[tuple[str, str]]:
    view = graph["view"]
    size = (
        f"{view['height_px']} × {view['width_px']} × {view['channels']} (height, width, channels)"
    )
    rows = [
        ("input", f"uint8, {size}"),
        ("channel order", graph["channel_order"]),
        ("colour space", graph["color_space"]),
        ("crop fraction", f"{view['crop_fraction']:g}"),
        ("alpha on", f"RGB {', '.join(map(str, graph.get('alpha_background', [])))}"),
    ]
    return rows + ([("columns", ", ".join(graph["columns"]))] if graph["columns"] else [])


def _origin_rows(graph: dict[str, Any]) -> list[tuple[str, str]]:
    share = "" if graph["fraction"] == 1 else f", fraction {graph['fraction']:g} by record id"
    analysed = (
        f"{graph['records']:,} of {format_count(graph['records_in_splits'], 'record')}{share}"
    )
    return [
        ("preprocessing_fn", f"{graph['preprocessing_fn']} (source {graph['function_version']})"),
        ("code version", graph["code_version"]),
        ("analysed", f"{', '.join(graph['splits'])}: {analysed}"),
        *(("ingest manifest", f"sha256 {digest}") for digest in graph["manifests"]),
    ]


def _statistics_rows(graph: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [(name, format_numbers(value)) for name, value in graph["statistics"].items()]
    for name, described in graph["large_statistics"].items():
        shape = " × ".join(map(str, described["shape"]))
        bounds = (
            f", {described['min']:,.4f} to {described['max']:,.4f}" if "min" in described else ""
        )
        rows.append((name, f"{shape} values{bounds}"))
    if graph["constant_channels"]:
        rows.append(("constant channels", format_constant_channels(graph["constant_channels"])))
    return rows


def _class_rows(graph: dict[str, Any]) -> list[tuple[str, str]]:
    classes, vocabulary = graph["classes"], graph["vocabulary"] or []
    rows = [("vocabulary", format_count(len(vocabulary), "class name") if vocabulary else "none")]
    if classes:
        rows.append(("classes", format_classes(classes)))
    lines = [
        f"{format_count(row['records'], 'record')}, weight {row['weight']:.4g}"
        if row["records"]
        else ""
        for row in classes
    ]
    for number, name in enumerate(vocabulary[:_MOST_CLASSES]):
        rows.append((f"  {number}", f"{name}  {lines[number]}" if lines else name))
    if len(vocabulary) > _MOST_CLASSES:
        rows.append(("  …", f"and {len(vocabulary) - _MOST_CLASSES:,} more; --json lists all"))
    unknown = sum(sum(counts.values()) for counts in graph["unknown_classes"].values())
    rule = {"minus_one": "id -1, left out of loss and metrics", "error": "an error"}
    counted = f"{format_count(unknown, 'record')} {'has' if unknown == 1 else 'have'} one"
    rows.append(("unknown label", f"{rule[graph['unknown_label']]}; {counted}"))
    return rows


def _read_vocabulary(graph_dir: str) -> list[str] | None:
    try:
        with files.open_input(files.join(graph_dir, _VOCABULARY)) as file:
            names = file.read().decode(errors="replace").removesuffix("\n")
            return names.split("\n") if names else []  # not splitlines: names may hold U+2028
    except FileNotFoundError:
        return None
