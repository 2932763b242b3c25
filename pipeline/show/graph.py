"""Prints what a transform graph is: its input, origin, statistics and labels."""

from rich.console import Console

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.analysis import Analysis, read_vocabulary
from image_pipeline.show.terminal import print_rows
from image_pipeline.show.words import (
    format_classes,
    format_constant_channels,
    format_count,
    format_numbers,
)

_MOST_CLASSES = 50


def print_graph(path: str, among: int, graph: Analysis, console: Console) -> None:
    """Shows a transform graph.

    Args:
      path: its folder.
      among: how many graphs it is the latest of; 0 if it is alone.
      graph: what is said of it.
      console: where to print.
    """
    view = graph.view
    sides = f"{view.height_px} × {view.width_px} × {view.channels}"
    rows = [
        ("transform graph", path + (f" (the latest of {among:,})" if among else "")),
        ("input", f"uint8, {sides} (height, width, channels)"),
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
        drawn = graph.sound.model_dump(mode="json").items()
        rows.append(("sounds drawn by", ", ".join(f"{name} {value}" for name, value in drawn)))
    if graph.columns:
        rows.append(("columns", ", ".join(graph.columns)))
    share = "" if graph.fraction == 1 else f", fraction {graph.fraction:g} by record id"
    analysed = f"{graph.records:,} of {format_count(graph.records_in_splits, 'record')}{share}"
    sums = "without checksums, since an earlier version made the graph"
    if graph.files is not None:
        sums = f"{len(graph.files)}, as the analysis wrote them by their checksums"
    rows += [
        ("preprocessing_fn", f"{graph.preprocessing_fn} (source {graph.function_version})"),
        ("code version", graph.code_version),
        ("analysed", f"{', '.join(graph.splits)}: {analysed}"),
        ("files", sums),
        *(("ingest manifest", f"sha256 {digest}") for digest in graph.manifests),
        *((name, format_numbers(value)) for name, value in graph.statistics.items()),
    ]
    for name, described in graph.large_statistics.items():
        shape, low, high = " × ".join(map(str, described.shape)), described.min, described.max
        bounds = f", {low:,.4f} to {high:,.4f}" if low is not None and high is not None else ""
        rows.append((name, f"{shape} values{bounds}"))
    if graph.constant_channels:
        rows.append(("constant channels", format_constant_channels(graph.constant_channels)))
    print_rows([*rows, *_label_rows(path, graph)], console)


def _label_rows(path: str, graph: Analysis) -> list[tuple[str, str]]:
    """The classes or tags by their ids, with their shares, or with their records and weights."""
    are_tags = graph.label == record.TAGS
    shares = None
    if graph.mask_classes:
        names, shares = graph.mask_classes, graph.mask_pixels or []
        rows = [("mask classes", f"{len(names):,}, shares of the pixels that have one")]
    elif graph.box_classes:
        names, shares = graph.box_classes, graph.box_counts or []
        rows = [("box classes", f"{len(names):,}, shares of boxes")]
    else:
        names = read_vocabulary(path) or []
        each = "tag" if are_tags else "class name"
        rows = [("vocabulary", format_count(len(names), each) if names else "none")]
        if classes := [each.model_dump() for each in graph.classes]:
            rows.append(("tags" if are_tags else "classes", format_classes(classes)))
    if shares is not None:
        total = max(1, sum(shares))
        extra = {name: f"  {count / total:.2%}" for name, count in zip(names, shares, strict=True)}
    else:
        extra = {
            row.name: f"  {format_count(row.records, 'record')}, weight {row.weight:.4g}"
            for row in graph.classes
            if row.records and row.weight
        }
    rows += [(f"  {n}", name + extra.get(name, "")) for n, name in enumerate(names[:_MOST_CLASSES])]
    if (further := len(names) - _MOST_CLASSES) > 0:
        rows.append(("  …", f"and {further:,} more; --json has all"))
    if shares is not None or graph.label == record.VALUE:
        return rows
    # What becomes of a class or tag that no analysed record has, and how often there is one.
    unknown = sum(sum(counts.values()) for counts in graph.unknown_classes.values())
    if graph.unknown_label == "error":
        return [*rows, ("unknown label", "an error")]
    if are_tags:
        counted = f"{format_count(unknown, 'such tag')} in records"
        return [*rows, ("unknown tag", f"fed as 0; {counted}")]
    counted = f"{format_count(unknown, 'record')} {'has' if unknown == 1 else 'have'} one"
    return [*rows, ("unknown label", f"id -1, left out of loss and metrics; {counted}")]
