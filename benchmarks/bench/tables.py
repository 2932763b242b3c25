"""The tables of RESULTS.md: one function a benchmark, from its raw results to Markdown lines."""

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.bench.figures import TASKS, Raw, cpu_per_1000, cpu_ratio, images_per_s
from benchmarks.bench.fits import fit_line

# Photos of ILSVRC 2012's training set.
IMAGENET, WORKERS = 1_281_167, (1, 8, 64)


def tabulate(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table; the first column is text, the others are figures."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def tabulate_read(results: Raw) -> list[str]:
    """A table a task, the cheapest first, then who is left out."""
    lines = []
    for task, readers in results["tasks"].items():
        timed = {name: reader for name, reader in readers.items() if reader["rounds"]}
        images = next(iter(timed.values()))["rounds"][0]["images"]
        lines += ["", f"**{TASKS[task]}** (`{task}`), {images:,} images", ""]
        head = ["", "CPU s / 1,000", "images / s", "peak MiB", "ours / it, CPU", "checked"]
        order = sorted(timed, key=lambda name: cpu_per_1000(timed[name]["rounds"]))
        lines += tabulate(head, [_read_row(name, timed) for name in order])
        failed = {name: reader["faults"] for name, reader in readers.items() if name not in timed}
        lines += _list_left_out({name: "; ".join(faults) for name, faults in failed.items()})
    return lines + _list_left_out(results["left_out"])


def _read_row(name: str, timed: dict[str, Raw]) -> list[str]:
    rounds = timed[name]["rounds"]
    ratio = "–"
    if name != "ours" and "ours" in timed:
        ratio = f"{cpu_ratio(timed['ours']['rounds'], rounds):.2f}"
    faults = "; ".join(timed[name]["faults"]) or "yes"
    peak = f"{rounds[-1]['peak_mb']:,.0f}"
    cost, rate = f"{cpu_per_1000(rounds):.4f}", f"{images_per_s(rounds):,.0f}"
    return [_bold(name), cost, rate, peak, ratio, faults]


def _bold(name: str) -> str:
    return f"**{name}**" if name == "ours" else name


def _list_left_out(left_out: dict[str, str]) -> list[str]:
    if not left_out:
        return []
    return ["", "Left out:", "", *(f"- {name}: {why}" for name, why in left_out.items())]


def tabulate_write(results: Raw) -> list[str]:
    """A line a writer, the cheapest first."""
    writers = results["writers"]
    rows = []
    for name in sorted(writers, key=lambda name: cpu_per_1000(writers[name])):
        rounds = writers[name]
        ratio = f"{cpu_ratio(writers['ours'], rounds):.2f}" if name != "ours" else "–"
        size = f"{rounds[0]['bytes'] / rounds[0]['images'] / 1e3:.1f}"
        cost, rate = f"{cpu_per_1000(rounds):.2f}", f"{images_per_s(rounds):,.0f}"
        rows.append([_bold(name), cost, rate, size, ratio])
    head = ["", "CPU s / 1,000", "images / s", "kB an image", "ours / it, CPU"]
    lines = ["", f"{results['images']:,} photos → 256 px, JPEG 90", ""]
    return lines + tabulate(head, rows) + _list_left_out(results["left_out"])


def tabulate_ingest(results: Raw) -> list[str]:
    """Ours, the bare loop and the script."""
    ways, images = results["ways"], results["images"]
    rows = [
        [
            _bold(name),
            f"{images / statistics.median(wall for wall, _ in pairs):,.0f}",
            "–"  # The pool's processes live on: their CPU seconds are not known.
            if name == "script"
            else f"{1e3 * statistics.median(cpu for _, cpu in pairs) / images:.2f}",
        ]
        for name, pairs in ways.items()
    ]
    head = ["", "images / s", "CPU ms an image"]
    lines = ["", f"{images:,} photos; the bare loop has one core, the others have all", ""]
    return lines + tabulate(head, rows)


def tabulate_analysis(results: Raw) -> list[str]:
    """Slopes and fixed costs of ingest, ours and naive."""
    rows = []
    for way, pairs in results.items():
        rounds = [cost for pair in pairs for cost in pair]
        wall, cpu = fit_line(rounds, "wall_s"), fit_line(rounds, "cpu_s")
        cells = [f"{1e3 * cpu.slope:.2f}", f"{cpu.fixed:.1f}", f"{1 / wall.slope:,.0f}"]
        rows.append([_bold(way), *cells, f"{wall.fixed:.1f}"])
    head = ["", "CPU s / 1,000", "fixed CPU s", "images / s", "fixed wall s"]
    sizes = " and ".join(f"{cost['images']:,}" for cost in results["ours"][0])
    return ["", f"{sizes} photos", "", *tabulate(head, rows)]


def tabulate_order(results: Raw) -> list[str]:
    """The quality of an epoch's order."""
    rows = [
        [
            _bold(name),
            f"{figures['rank_correlation']:.4f}",
            f"{figures['repeated_neighbours']:.3%}",
            f"{figures['classes_in_batch']:.2f}",
            f"{figures['label_run']:.3f}",
        ]
        for name, figures in results["quality"].items()
    ]
    head = ["", "rank correlation", "neighbours repeated", "classes in a batch", "run of a class"]
    return ["", *tabulate(head, rows)]


def tabulate_end_to_end(results: Raw) -> list[str]:
    """Training, by way of feeding."""
    rows = []
    for name, figures in results.items():
        cells = [f"{figures['once_s']:.1f}"]
        for kind in ("model", "device"):
            epochs = figures[kind]
            waits = [epoch["wait_s"] for epoch in epochs[1:] or epochs]
            cells += [f"{sum(epoch['total_s'] for epoch in epochs):.1f}"]
            cells += [f"{statistics.median(waits):.2f}"]
        rows.append([_bold(name), *cells, f"{figures['accuracy']:.1%}"])
    head = ["", "once, s", "all epochs, s", "waiting in an epoch, s"]
    head += ["all epochs with a simulated device, s", "waiting in an epoch, s", "accuracy"]
    first = next(iter(results.values()))
    size = f"{first['images']:,} images, {first['steps']:,} steps an epoch"
    return ["", size, "", *tabulate(head, rows)]


def tabulate_growth(results: Raw) -> list[str]:
    """Medians at every size, the fitted lines, and what they say of ImageNet-1k."""
    stages = results["stages"]
    sizes = sorted({entry["size"] for entry in next(iter(stages.values()))})
    head = ["wall s", *(f"{size}× ({size * results['photos']:,})" for size in sizes)]
    head += ["ms an image", "fixed s", "CPU ms an image", "fixed CPU s", "off the line"]
    rows = []
    for stage, rounds in stages.items():
        wall, cpu = fit_line(rounds, "wall_s"), fit_line(rounds, "cpu_s")
        cells = [f"{_median_wall(rounds, size):.2f}" for size in sizes]
        cells += [f"{1e3 * wall.slope:.3f}", f"{wall.fixed:.2f}"]
        cells += [f"{1e3 * cpu.slope:.3f}", f"{cpu.fixed:.2f}", f"{wall.worst:.0%}"]
        rows.append([stage, *cells])
    return ["", *tabulate(head, rows), *_project(stages)]


def _median_wall(rounds: list[Raw], size: int) -> float:
    return statistics.median(entry["wall_s"] for entry in rounds if entry["size"] == size)


def _project(stages: Raw) -> list[str]:
    head = [f"ImageNet-1k, {IMAGENET:,} images", *(f"{n} workers" for n in WORKERS)]
    head[1] = "these cores"
    rows = []
    for stage, rounds in stages.items():
        line = fit_line(rounds, "wall_s")
        cells = [_say_time(line.at(IMAGENET, workers)) for workers in WORKERS]
        rows.append([stage, *(cells if stage != "epoch" else [cells[0], *["–"] * len(cells[1:])])])
    return [
        "",
        "The projection is `fixed + slope × images / workers`. It assumes photos of these sizes, a "
        "disk as fast as the memory that these came from, workers with the same cores each, work "
        "that is shared evenly, and nothing for the network. An epoch is one training host's.",
        "",
        *tabulate(head, rows),
    ]


def _say_time(seconds: float) -> str:
    if seconds < 0:  # The sizes were too near to each other for a line.
        return "–"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


TABLES: dict[str, Callable[[Any], list[str]]] = {
    "read": tabulate_read,
    "write": tabulate_write,
    "ingest": tabulate_ingest,
    "analysis": tabulate_analysis,
    "growth": tabulate_growth,
    "order": tabulate_order,
    "end_to_end": tabulate_end_to_end,
}
