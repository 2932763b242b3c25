"""What differs between two data sets or runs: counts, classes, options, metrics, versions."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from image_pipeline.components.evaluation.facts import read_evaluation
from image_pipeline.components.json_text import flatten
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import Source
from image_pipeline.report.absent import Absent
from image_pipeline.report.training import read_versions
from image_pipeline.run_config import dump_stored, find_options
from image_pipeline.show.ingest_summary import summarize_manifest

# Groups of facts, each a flat dict of values as JSON has them.
Facts = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Differing:
    """A fact that is not the same; None where one has no such fact. A number has its change."""

    name: str
    before: Any
    now: Any
    change: float | None = None


@dataclasses.dataclass(frozen=True)
class Group:
    """Facts of one kind: how many are the same, and those that differ."""

    name: str
    same: int
    rows: Sequence[Differing]


@dataclasses.dataclass(frozen=True)
class Difference:
    """What differs from another folder; groups are counts, classes, options, metrics, versions."""

    against: str
    groups: list[Group]


def compare(source: Source, config: PipelineConfig | None, other: Source) -> Difference:
    """Compares what is known about both."""
    options = find_options(other)
    before = gather_facts(other, options if isinstance(options, PipelineConfig) else None)
    now = gather_facts(source, config)
    groups = []
    for group, known in now.items():
        old: dict[str, Any] = before[group]
        rows: list[Differing] = []
        names = dict.fromkeys([*known, *old])
        for name in names:
            was: Any = old.get(name)
            value: Any = known.get(name)
            if was == value:
                continue
            numbers = all(type(each) in (int, float) for each in (was, value))
            rows.append(Differing(name, was, value, value - was if numbers else None))
        if names:
            groups.append(Group(group, len(names) - len(rows), rows))
    return Difference(other.folder, groups)


def gather_facts(source: Source, config: PipelineConfig | None) -> Facts:
    """All that is compared, in groups, each a flat dict."""
    summary = source.summary or {}
    counts = flatten(summarize_manifest(source.manifest))
    figures = ("statistics", "training", "blessed")
    metrics = flatten({name: summary[name] for name in figures if name in summary})
    lost = Absent()
    if found := lost.ask(lambda: read_evaluation(source.find_artifact("evaluation")), "evaluation"):
        metrics |= {f"evaluation.{name}": each.value for name, each in found.metrics.items()}
        metrics |= {f"evaluation.classes.{each.name}": each.figure.value for each in found.classes}
    elif source.run is not None:
        metrics |= lost
    return {
        "counts": {name: value for name, value in counts.items() if value is not None},
        "classes": flatten(source.manifest.books.classes, " / "),
        "options": flatten(
            {"ingest": source.manifest.options} | ({} if config is None else dump_stored(config))
        ),
        "metrics": metrics,
        "versions": read_versions(source),
    }
