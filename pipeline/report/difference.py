"""What differs between two data sets or runs: counts, classes, options, metrics, versions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components.dataset.manifest import hash_manifest
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import Source
from image_pipeline.report.evaluation import find_evaluation
from image_pipeline.run_config import dump_stored, find_options
from image_pipeline.show.ingest_summary import summarize_manifest

# Groups of facts, each a flat dict of values as JSON has them.
Facts = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Differing:
    """A fact that is not the same; None where one has no such fact."""

    name: str
    before: Any
    now: Any


@dataclasses.dataclass(frozen=True)
class Changed(Differing):
    """A number that is not the same, and by how much it grew."""

    change: float


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
    """Compares what is known about both.

    Args:
      source: the report's subject: now.
      config: its options; None if they are not known.
      other: what it is compared with: before.
    """
    options = find_options(other)
    before = gather_facts(other, options if isinstance(options, PipelineConfig) else None)
    now = gather_facts(source, config)
    groups = [
        _compare_group(name, before[name], now[name]) for name in now if before[name] or now[name]
    ]
    return Difference(other.folder, groups)


def gather_facts(source: Source, config: PipelineConfig | None) -> Facts:
    """All that is compared, in groups, each a flat dict."""
    summary = source.summary or {}
    counts = flatten(summarize_manifest(source.manifest))
    metrics = flatten({name: summary[name] for name in _METRICS if name in summary})
    if (found := find_evaluation(source, {})) is not None:
        metrics |= {f"evaluation.{name}": each.value for name, each in found.metrics.items()}
        metrics |= {f"evaluation.classes.{each.name}": each.figure.value for each in found.classes}
    by_split = source.manifest.books.classes
    return {
        "counts": {name: value for name, value in counts.items() if value is not None},
        "classes": flatten(by_split, " / "),
        "options": flatten(
            {"ingest": source.manifest.options} | ({} if config is None else dump_stored(config))
        ),
        "metrics": metrics,
        "versions": _versions(source),
    }


_METRICS = ("statistics", "training", "blessed")


def flatten(values: Mapping[str, Any], joint: str = ".", prefix: str = "") -> dict[str, Any]:
    """A nested dict as one of dotted names; lists are values."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, joint, f"{prefix}{name}{joint}")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _versions(source: Source) -> dict[str, Any]:
    versions = {"manifest sha256": hash_manifest(source.data_dir)}
    if graph := source.read_graph():
        versions["analysis code"] = graph.code_version
        versions["preprocessing_fn"] = graph.preprocessing_fn
        versions["preprocessing_fn source"] = graph.function_version
    return versions


def _compare_group(name: str, before: dict[str, Any], now: dict[str, Any]) -> Group:
    names = list(dict.fromkeys([*now, *before]))
    differing = [each for each in names if before.get(each) != now.get(each)]
    rows = [_compare_values(each, before.get(each), now.get(each)) for each in differing]
    return Group(name, len(names) - len(differing), rows)


def _compare_values(name: str, before: Any, now: Any) -> Differing:
    if _is_number(before) and _is_number(now):
        return Changed(name, before, now, now - before)
    return Differing(name, before, now)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
