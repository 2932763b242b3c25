"""Verifies a data set: every file, record and index row is what ingest wrote."""

import functools
import itertools

import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.sealed import parse_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.manifest import (
    DUPLICATES,
    FORMAT_VERSION,
    INDEX,
    MANIFEST,
    QUARANTINE,
    SKIPPED,
    count_accounted,
    describe_file,
    kept_copies,
    read_lines,
)
from image_pipeline.components.ingest.verify_shard import (
    CHANGED,
    Finding,
    ListedShard,
    check_shard,
    explain_unreadable,
)
from image_pipeline.components.threads import map_in_order, usable_cores


def verify_data_set(output_dir: str) -> list[Finding]:
    """Checks a data set against its manifest, its index and its own checksums.

    Args:
      output_dir: the data set's folder.

    Returns:
      What is wrong, by file and record; nothing if the data set is whole.

    Raises:
      UserError: if there is no such folder.
    """
    if not files.exists(output_dir):
        raise UserError(f"There is no data set {output_dir!r}: no such folder; check the path.")
    try:
        manifest = parse_manifest(files.read_file(files.join(output_dir, MANIFEST)))
        shards, listed = _list_shards(manifest), _list_files(manifest)
        findings = _check_books(manifest)
    except FileNotFoundError:
        return [
            Finding(
                MANIFEST, "missing, so the data set is not whole; run again what was writing it"
            )
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [Finding(MANIFEST, f"damaged ({type(error).__name__}: {error}); run ingest again")]
    for name, size_bytes, sha256 in listed:
        findings += _check_file(output_dir, name, size_bytes, sha256)
    unsound = {finding.file for finding in findings}
    findings += _check_lists(manifest, output_dir, unsound)
    findings += _find_strays(output_dir, {shard.file for shard in shards})
    if INDEX not in unsound:
        findings += _count_index_rows(output_dir, manifest["written"])
    check = functools.partial(check_shard, output_dir=output_dir, has_index=INDEX not in unsound)
    return [*findings, *itertools.chain(*map_in_order(check, shards, usable_cores()))]


def _list_shards(manifest: dict) -> list[ListedShard]:
    if manifest["format_version"] != FORMAT_VERSION:
        raise ValueError(f"its format_version is {manifest['format_version']!r}")
    return [
        ListedShard(split, number, **shard)
        for split, described in manifest["splits"].items()
        for number, shard in enumerate(described["shards"])
    ]


def _list_files(manifest: dict) -> list[tuple[str, int, str]]:
    """The files beside the shards: name, bytes and SHA-256."""
    return [(name, file["bytes"], file["sha256"]) for name, file in manifest["files"].items()]


def _check_books(manifest: dict) -> list[Finding]:
    """The manifest's own sums."""
    splits = manifest["splits"].values()
    sums = [
        ("found", count_accounted(manifest)),
        ("written", sum(split["records"] for split in splits)),
        ("written", sum(shard["records"] for split in splits for shard in split["shards"])),
        ("written", sum(n for classes in manifest["classes"].values() for n in classes.values())),
        ("quarantined", sum(manifest["quarantine_reasons"].values())),
        ("skipped", sum(manifest.get("skipped_kinds", {}).values())),
    ]
    return [
        Finding(MANIFEST, f"does not balance: {listed} {name}, but its parts are {total}")
        for name, total in sums
        if (listed := manifest.get(name, 0)) != total
    ]


def _check_file(output_dir: str, name: str, size_bytes: int, sha256: str) -> list[Finding]:
    try:
        described = describe_file(files.join(output_dir, name))
    except OSError as error:
        return [Finding(name, explain_unreadable(error))]
    if described["bytes"] != size_bytes:
        return [Finding(name, f"{described['bytes']} bytes, but the manifest says {size_bytes}")]
    if described["sha256"] != sha256:
        return [Finding(name, CHANGED)]
    return []


def _check_lists(manifest: dict, output_dir: str, unsound: set[str]) -> list[Finding]:
    """The lists have a line for each file in the books, and bad files' copies are as they were."""
    findings = []
    if DUPLICATES not in unsound:
        repeated = [line for line in read_lines(output_dir, DUPLICATES) if not line["written"]]
        findings += _check_count(DUPLICATES, len(repeated), manifest["duplicates"])
    if manifest.get("skipped") and SKIPPED not in unsound:
        skipped = read_lines(output_dir, SKIPPED)
        findings += _check_count(SKIPPED, len(skipped), manifest["skipped"])
    if QUARANTINE not in unsound:
        bad = read_lines(output_dir, QUARANTINE)
        findings += _check_count(QUARANTINE, len(bad), manifest["quarantined"])
        sizes = {line["sha256"]: line["bytes"] for line in bad}
        for content in kept_copies(bad):
            findings += _check_file(output_dir, f"quarantine/{content}", sizes[content], content)
    return findings


def _check_count(name: str, listed: int, counted: int) -> list[Finding]:
    problem = f"lists {listed} files, but the manifest counts {counted}"
    return [] if listed == counted else [Finding(name, problem)]


def _find_strays(output_dir: str, known: set[str]) -> list[Finding]:
    """A reader that matches `Split-*/*` would read shards that are no part of the data set."""
    prefix = len(files.join(output_dir, ""))
    found = [path[prefix:] for path in files.list_files(output_dir, "Split-*/*")]
    return [Finding(f, "not in the manifest; delete it") for f in found if f not in known]


def _count_index_rows(output_dir: str, written: int) -> list[Finding]:
    with files.open_input(files.join(output_dir, INDEX)) as file:
        try:
            rows = pq.read_metadata(file).num_rows
        except (pa.ArrowException, OSError) as error:
            return [Finding(INDEX, f"not a readable Parquet file: {error}")]
    return [] if rows == written else [Finding(INDEX, f"{rows} rows, but {written} records")]
