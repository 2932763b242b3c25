"""An ingest in numbers and in lines."""

from collections.abc import Mapping
from typing import Any

from components.ingest.manifest import SKIPPED


def summarize_manifest(manifest: dict) -> dict[str, Any]:
    """The numbers of an ingest."""
    splits = manifest["splits"]
    return {
        "found": manifest["found"],
        "written": manifest["written"],
        "duplicates": manifest["duplicates"],
        "quarantined": manifest["quarantined"],
        "quarantine_reasons": manifest["quarantine_reasons"],
        "skipped": manifest.get("skipped", 0),
        "skipped_kinds": manifest.get("skipped_kinds", {}),
        "skipped_examples": manifest.get("skipped_examples", {}),
        "conflicting_labels": manifest["conflicting_labels"],
        "near_duplicates": manifest.get("near_duplicates"),
        "straddling": manifest["straddling"],
        "splits": {name: split["records"] for name, split in splits.items()},
        "shards": {name: len(split["shards"]) for name, split in splits.items()},
        "bytes": sum(split["bytes"] for split in splits.values()),
    }


def ingest_rows(ingest: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines that tell of an ingest."""
    splits = ", ".join(f"{name} {records:,}" for name, records in ingest["splits"].items())
    reasons = _list_counts(ingest["quarantine_reasons"])
    shards = sum(ingest["shards"].values())
    rows = [
        ("images found", f"{ingest['found']:,}"),
        ("written", f"{ingest['written']:,} ({splits})"),
        ("rejected", f"{ingest['quarantined']:,}" + (f" ({reasons})" if reasons else "")),
        ("duplicates", f"{ingest['duplicates']:,}"),
        ("shards", f"{shards:,}, {ingest['bytes'] / 1e6:,.1f} MB"),
    ]
    if ingest.get("skipped"):
        examples = ingest["skipped_examples"]
        kinds = "; ".join(
            f"{kind} {count:,}, for example {examples[kind]}"
            for kind, count in ingest["skipped_kinds"].items()
        )
        rows.append(("skipped, no images", f"{ingest['skipped']:,} ({kinds}); see {SKIPPED}"))
    if ingest["conflicting_labels"]:
        rows.append(("same bytes, other label", f"{ingest['conflicting_labels']:,}"))
    if ingest["near_duplicates"] is not None:
        rows.append(("near-duplicate groups", f"{ingest['near_duplicates']:,}"))
    if ingest["straddling"]:
        rows.append(("units in several splits", f"{ingest['straddling']:,}"))
    return rows


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
