"""What differs between two data sets or runs: counts, classes, options, metrics, versions."""

from collections.abc import Mapping
from typing import Any

from image_pipeline.components.dataset.manifest import hash_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.named_folder import Source
from image_pipeline.run_config import dump_stored, read_config
from image_pipeline.show.ingest_summary import summarize_manifest

Facts = dict[str, dict[str, Any]]


def compare(source: Source, other: Source) -> dict[str, Any]:
    """Compares what is known about both.

    Args:
      source: the report's subject: now.
      other: what it is compared with: before.

    Returns:
      `against`: the other folder; `groups`: for each of counts, classes, options, metrics and
      versions its `name`, how many facts are the `same`, and the `rows` that differ, each with
      `name`, `before` and `now` (None where one has no such fact) and, of numbers, `change`.
    """
    before, now = gather_facts(other), gather_facts(source)
    groups = [_compare_group(name, before[name], now[name]) for name in now]
    return {"against": other.folder, "groups": [group for group in groups if group is not None]}


def gather_facts(source: Source) -> Facts:
    """All that is compared, in groups, each a flat dict."""
    summary = source.summary or {}
    counts = flatten(summarize_manifest(source.manifest))
    metrics = flatten({name: summary[name] for name in _METRICS if name in summary})
    by_split = source.manifest.books.classes
    return {
        "counts": {name: value for name, value in counts.items() if value is not None},
        "classes": flatten(by_split, " / "),
        "options": flatten({"ingest": source.manifest.options} | _training_options(source)),
        "metrics": metrics,
        "versions": _versions(source),
    }


_METRICS = ("statistics", "training", "evaluation", "blessed")


def flatten(values: Mapping[str, Any], joint: str = ".", prefix: str = "") -> dict[str, Any]:
    """A nested dict as one of dotted names; lists are values."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, joint, f"{prefix}{name}{joint}")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _training_options(source: Source) -> dict[str, Any]:
    if source.run is None:
        return {}
    try:
        return dump_stored(read_config(source))
    except UserError:
        return {}  # The report's own section says why they are unknown.


def _versions(source: Source) -> dict[str, Any]:
    versions = {"manifest sha256": hash_manifest(source.data_dir)}
    if analysis := source.read_graph():
        versions["analysis code"] = analysis["code_version"]
        versions["preprocessing_fn"] = analysis["preprocessing_fn"]
        versions["preprocessing_fn source"] = analysis["function_version"]
    return versions


def _compare_group(name: str, before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any] | None:
    if not before and not now:
        return None
    names = list(dict.fromkeys([*now, *before]))
    differing = [each for each in names if before.get(each) != now.get(each)]
    rows = [_compare_values(each, before.get(each), now.get(each)) for each in differing]
    return {"name": name, "same": len(names) - len(differing), "rows": rows}


def _compare_values(name: str, before: Any, now: Any) -> dict[str, Any]:
    row = {"name": name, "before": before, "now": now}
    if _is_number(before) and _is_number(now):
        row["change"] = now - before
    return row


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
