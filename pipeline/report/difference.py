"""What a run's components reported, its versions and options, and what differs between two."""

import dataclasses
import hashlib
import importlib.metadata
from collections.abc import Sequence
from typing import Any

import yaml

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import hash_manifest
from image_pipeline.components.dataset.paths import in_split, parse_split
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import read_evaluation
from image_pipeline.components.json_text import flatten
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import Source
from image_pipeline.report.absent import Absent
from image_pipeline.run_config import dump_stored, find_options
from image_pipeline.show.ingest_summary import summarize_manifest


@dataclasses.dataclass(frozen=True)
class SplitAnomalies:
    """What does not fit the schema in a split: pairs of a column and a description."""

    split: str
    anomalies: list[tuple[str, str]]

    @property
    def count(self) -> int:
        """How many columns do not fit."""
        return len(self.anomalies)


@dataclasses.dataclass(frozen=True)
class Versions:
    """What made the data set and the model: pairs of a name and a text, and of a title and YAML."""

    rows: list[tuple[str, str]]
    options: list[tuple[str, str]]


def read_anomalies(folder: str) -> list[SplitAnomalies]:
    """What TFDV found of each split, in its words; `folder` is the ExampleValidator's artifact."""
    from google.protobuf import message
    from tensorflow_metadata.proto.v0 import anomalies_pb2

    described = []
    for path in sorted(files.list_files(folder, in_split("*", "SchemaDiff.pb"))):
        with files.open_input(path) as file:
            content = file.read()
        try:
            found = anomalies_pb2.Anomalies.FromString(content)
        except message.DecodeError as error:
            raise UserError(
                f"{path!r} is damaged ({error}); run again from the ExampleValidator on."
            ) from error
        rows = [
            (name or "the data set", f"{info.short_description}: {info.description}")
            for name, info in sorted(found.anomaly_info.items())
        ]
        if found.dataset_anomaly_info.description:
            info = found.dataset_anomaly_info
            rows.insert(0, ("the data set", f"{info.short_description}: {info.description}"))
        described.append(SplitAnomalies(parse_split(path), rows))
    if not described:
        raise UserError(f"{folder!r} is empty; run again from the ExampleValidator on.")
    return described


def describe_versions(source: Source, config: PipelineConfig | None) -> Versions:
    """What made the data set and the model."""
    made = read_versions(source)
    rows = [
        ("report by", f"image-pipeline {importlib.metadata.version('image-pipeline')}"),
        ("format version", str(source.manifest.format_version)),
        ("manifest", f"sha256 {made['manifest sha256']}"),
    ]
    options = [("ingest", _to_yaml(source.manifest.options))]
    if "analysis code" in made:
        function = f"{made['preprocessing_fn']} (source {made['preprocessing_fn source']})"
        rows += [("analysis code", made["analysis code"]), ("preprocessing_fn", function)]
    if config is not None:
        stored = dump_stored(config)
        text = _to_yaml(stored)
        rows.append(("training options", f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"))
        options += [(name, _to_yaml(group)) for name, group in stored.items()]
    return Versions(rows, options)


def read_versions(source: Source) -> dict[str, str]:
    """What made the data set and the transform graph, by name."""
    versions = {"manifest sha256": hash_manifest(source.data_dir)}
    if graph := Absent().ask(source.read_graph):  # Of a damaged one, nothing is known.
        versions["analysis code"] = graph.code_version
        versions["preprocessing_fn"] = graph.preprocessing_fn
        versions["preprocessing_fn source"] = graph.function_version
    return versions


def _to_yaml(options: Any) -> str:
    return yaml.safe_dump(options, sort_keys=False, allow_unicode=True)


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
