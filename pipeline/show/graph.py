"""Prints what a transform graph is."""

from collections.abc import Sequence

from rich.console import Console

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.analysis import Analysis, read_vocabulary
from image_pipeline.show.rows import (
    format_classes,
    format_constant_channels,
    format_numbers,
    print_rows,
)
from image_pipeline.show.words import format_count

_MOST_CLASSES = 50


def print_graph(path: str, among: int, graph: Analysis, console: Console) -> None:
    """Shows a transform graph.

    Args:
      path: its folder.
      among: how many graphs it is the latest of; 0 if it is alone.
      graph: what is said of it.
      console: where to print.
    """
    which = f" (the latest of {among:,})" if among else ""
    print_rows([("transform graph", path + which)], console)
    print_rows([*_input_rows(graph), *_origin_rows(graph), *_statistics_rows(graph)], console)
    print_rows(_label_rows(graph, read_vocabulary(path) or []), console)


def _input_rows(graph: Analysis) -> list[tuple[str, str]]:
    view = graph.view
    size = f"{view.height_px} × {view.width_px} × {view.channels} (height, width, channels)"
    rows = [
        ("input", f"uint8, {size}"),
        ("channel order", graph.channel_order),
        ("colour space", graph.color_space),
        ("crop fraction", f"{view.crop_fraction:g}"),
        ("alpha on", f"RGB {', '.join(map(str, graph.alpha_background))}"),
    ]
    if graph.depth != [0, 65_535]:
        rows.append(("16 bits", f"{graph.depth[0]:,} to {graph.depth[1]:,} become 0 to 255"))
    if graph.resize is not None:
        side = graph.resize.size_px
        smaller = "" if graph.resize.enlarge else ", except smaller ones"
        rows.append(("distorted", f"by ingest and serving to {side} × {side}{smaller}"))
    if graph.sound is not None:
        said = ", ".join(
            f"{name} {value}" for name, value in graph.sound.model_dump(mode="json").items()
        )
        rows.append(("sounds drawn by", said))
    return rows + ([("columns", ", ".join(graph.columns))] if graph.columns else [])


def _origin_rows(graph: Analysis) -> list[tuple[str, str]]:
    share = "" if graph.fraction == 1 else f", fraction {graph.fraction:g} by record id"
    analysed = f"{graph.records:,} of {format_count(graph.records_in_splits, 'record')}{share}"
    return [
        ("preprocessing_fn", f"{graph.preprocessing_fn} (source {graph.function_version})"),
        ("code version", graph.code_version),
        ("analysed", f"{', '.join(graph.splits)}: {analysed}"),
        ("files", _describe_files(graph)),
        *(("ingest manifest", f"sha256 {digest}") for digest in graph.manifests),
    ]


def _describe_files(graph: Analysis) -> str:
    if graph.files is None:
        return "without checksums, since an earlier version made the graph"
    return f"{len(graph.files)}, as the analysis wrote them by their checksums"


def _statistics_rows(graph: Analysis) -> list[tuple[str, str]]:
    rows = [(name, format_numbers(value)) for name, value in graph.statistics.items()]
    for name, described in graph.large_statistics.items():
        shape = " × ".join(map(str, described.shape))
        low, high = described.min, described.max
        bounds = f", {low:,.4f} to {high:,.4f}" if low is not None and high is not None else ""
        rows.append((name, f"{shape} values{bounds}"))
    if graph.constant_channels:
        rows.append(("constant channels", format_constant_channels(graph.constant_channels)))
    return rows


def _label_rows(graph: Analysis, vocabulary: Sequence[str]) -> list[tuple[str, str]]:
    if graph.mask_classes:
        title = "mask classes", "shares of the pixels that have one"
        return _count_rows(*title, graph.mask_classes, graph.mask_pixels or [])
    if graph.box_classes:
        return _count_rows(
            "box classes", "shares of boxes", graph.box_classes, graph.box_counts or []
        )
    return _class_rows(graph, vocabulary)


def _count_rows(
    title: str, of_what: str, names: Sequence[str], counts: Sequence[int]
) -> list[tuple[str, str]]:
    """The classes of pixels or boxes by their ids, with their shares."""
    total = max(1, sum(counts))
    rows = [(title, f"{len(names):,}, {of_what}")]
    for number, name in enumerate(names[:_MOST_CLASSES]):
        rows.append((f"  {number}", f"{name}  {counts[number] / total:.2%}"))
    if len(names) > _MOST_CLASSES:
        rows.append(("  …", f"and {len(names) - _MOST_CLASSES:,} more; --json has all"))
    return rows


def _class_rows(graph: Analysis, vocabulary: Sequence[str]) -> list[tuple[str, str]]:
    classes = graph.classes
    name = "tag" if graph.label == record.TAGS else "class name"
    rows = [("vocabulary", format_count(len(vocabulary), name) if vocabulary else "none")]
    if classes:
        kind = "tags" if graph.label == record.TAGS else "classes"
        rows.append((kind, format_classes([each.model_dump() for each in classes])))
    lines = {
        row.name: f"  {format_count(row.records, 'record')}, weight {row.weight:.4g}"
        for row in classes
        if row.records and row.weight
    }
    for number, name in enumerate(vocabulary[:_MOST_CLASSES]):
        rows.append((f"  {number}", name + lines.get(name, "")))
    if len(vocabulary) > _MOST_CLASSES:
        rows.append(("  …", f"and {len(vocabulary) - _MOST_CLASSES:,} more; --json lists all"))
    return rows if graph.label == record.VALUE else [*rows, _unknown_row(graph)]


def _unknown_row(graph: Analysis) -> tuple[str, str]:
    """What becomes of a class or tag that no analysed record has, and how often there is one."""
    unknown = sum(sum(counts.values()) for counts in graph.unknown_classes.values())
    if graph.unknown_label == "error":
        return "unknown label", "an error"
    if graph.label == record.TAGS:
        return "unknown tag", f"fed as 0; {format_count(unknown, 'such tag')} in records"
    counted = f"{format_count(unknown, 'record')} {'has' if unknown == 1 else 'have'} one"
    return "unknown label", f"id -1, left out of loss and metrics; {counted}"
