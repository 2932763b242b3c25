"""RESULTS.md and its plots, from the raw results alone."""

import json
import pathlib
from typing import Any

from benchmarks.bench.plots import PLOTS
from benchmarks.bench.tables import TABLES

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
RESULTS_DIR, PAGE = BENCHMARKS / "results", BENCHMARKS / "RESULTS.md"
# Of each benchmark: its heading, and what its figures are.
SECTIONS = {
    "read": (
        "Reading",
        "Batches of float32, cropped, flipped and normalised alike. CPU seconds are those "
        "of all threads and processes of a reader: the figure to compare, since wall time "
        "swings on a shared machine. `bare loop` is OpenCV in threads and nothing around it; those "
        "that are below it resize or normalise in less.",
    ),
    "write": (
        "Writing",
        "The same photos, decoded, shrunk and encoded, in each writer's own format, start of its "
        "processes included. Ours also checks, hashes, splits, shuffles and indexes.",
    ),
    "ingest": ("Ingest", "Beside a bare loop of the same libraries and a hand-written script."),
    "analysis": (
        "Analysis",
        "Beside ingest of the same photos, and tf.Transform as it is mostly used with images.",
    ),
    "growth": ("Growth", "Of ingest, analysis and an epoch with the number of photos."),
    "order": ("Order", "Two epochs' order, beside tf.data's shuffle buffers."),
    "end_to_end": (
        "End to end",
        "A recipe for CIFAR-10, fed in three ways, from files to accuracy.",
    ),
}
_HEAD = """# Results

Made by `make bench` from the raw figures in `benchmarks/results/`. [README.md](README.md) says what
each benchmark does, what is the same for all, and what is not; the rivals' versions are in
`benchmarks/requirements/`. Each section says on what machine, when and of which commit it was
measured (`+`: with changes to it).
"""
# Arguments that the tables show.
_SHOWN = ("readers", "tasks", "writers")


def load_raw(folder: pathlib.Path = RESULTS_DIR) -> dict[str, dict[str, Any]]:
    """The raw results that are there, by their benchmark."""
    found = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path.exists()}


def make_page(raw: dict[str, dict[str, Any]]) -> str:
    """RESULTS.md."""
    parts = [_HEAD]
    for name, (title, text) in SECTIONS.items():
        if name in raw:
            parts += [f"\n## {title}\n", f"{text}\n", _describe(raw[name]) + "\n"]
            if name in PLOTS:
                parts.append(f"\n![{title}, as a plot of the table below](results/{name}.svg)\n")
            parts.append("\n".join(TABLES[name](raw[name]["results"])) + "\n")
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def make_plots(raw: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The SVG of every benchmark that has a plot."""
    return {name: draw(raw[name]["results"]) for name, draw in PLOTS.items() if name in raw}


def _describe(raw: dict[str, Any]) -> str:
    machine = raw["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in raw["versions"].items())
    arguments = ", ".join(
        f"{name.replace('_', ' ')} {_join(value)}"
        for name, value in raw["arguments"].items()
        if value not in (None, False) and name not in _SHOWN
    )
    return (
        f"{raw['date']}, commit {raw['commit']}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}. {versions}.\n\nWith {arguments}."
    )


def _join(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def write_page(folder: pathlib.Path = RESULTS_DIR, page: pathlib.Path = PAGE) -> None:
    """Writes the page and the plots."""
    raw = load_raw(folder)
    page.write_text(make_page(raw))
    for name, svg in make_plots(raw).items():
        (folder / f"{name}.svg").write_text(svg)
