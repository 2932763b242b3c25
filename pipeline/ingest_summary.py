"""An ingest in numbers and in lines."""

from collections.abc import Mapping
from typing import Any

from components.ingest.manifest import read_manifest
from components.ingest.unserved import NOT_SERVED, PROFILE, count_unserved


def summarize_data_set(examples_dir: str) -> dict[str, Any]:
    """The numbers of an ingest, and `unserved`: images that a served model would see otherwise."""
    return summarize_manifest(read_manifest(examples_dir)) | {
        "unserved": count_unserved(examples_dir)
    }


def summarize_manifest(manifest: dict) -> dict[str, Any]:
    """The numbers of an ingest that its manifest has."""
    splits = manifest["splits"]
    return {
        "found": manifest["found"],
        "written": manifest["written"],
        "duplicates": manifest["duplicates"],
        "quarantined": manifest["quarantined"],
        "quarantine_reasons": manifest["quarantine_reasons"],
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
    reasons = ", ".join(f"{name} {count:,}" for name, count in ingest["quarantine_reasons"].items())
    shards = sum(ingest["shards"].values())
    rows = [
        ("images found", f"{ingest['found']:,}"),
        ("written", f"{ingest['written']:,} ({splits})"),
        ("rejected", f"{ingest['quarantined']:,}" + (f" ({reasons})" if reasons else "")),
        ("duplicates", f"{ingest['duplicates']:,}"),
        ("shards", f"{shards:,}, {ingest['bytes'] / 1e6:,.1f} MB"),
    ]
    if ingest["conflicting_labels"]:
        rows.append(("same bytes, other label", f"{ingest['conflicting_labels']:,}"))
    if ingest["near_duplicates"] is not None:
        rows.append(("near-duplicate groups", f"{ingest['near_duplicates']:,}"))
    if ingest["straddling"]:
        rows.append(("units in several splits", f"{ingest['straddling']:,}"))
    return rows + _unserved_rows(ingest.get("unserved", {}))


def _unserved_rows(unserved: Mapping[str, int]) -> list[tuple[str, str]]:
    """What a served model does not see as training did; see docs/transform.md."""
    refused = ", ".join(f"{unserved[kind]:,} {kind}" for kind in NOT_SERVED if kind in unserved)
    rows = []
    if refused:
        rows.append(("a server refuses", f"{refused}; send JPEG, PNG, WebP, GIF or BMP"))
    if PROFILE in unserved:
        count = unserved[PROFILE]
        rows.append(("a server sees otherwise", f"{count:,} with a colour profile; send sRGB"))
    return rows
