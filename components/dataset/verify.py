"""Verifies a data set: every file, record and index row is what ingest wrote."""

import itertools
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import ListedFile, describe_file
from image_pipeline.components.dataset.index_file import find_problem
from image_pipeline.components.dataset.lists import (
    Duplicate,
    Line,
    Quarantined,
    Skipped,
    kept_copies,
    read_list,
)
from image_pipeline.components.dataset.manifest import Manifest, parse_manifest, read_manifest
from image_pipeline.components.dataset.other_records import explain_no_data_set
from image_pipeline.components.dataset.paths import (
    HISTORY,
    INDEX,
    MANIFEST,
    ROWS,
    VERSIONS,
    in_split,
    name_copy,
)
from image_pipeline.components.dataset.verify_shard import (
    CHANGED,
    Finding,
    check_shard,
    explain_unreadable,
    raise_shortage,
)
from image_pipeline.components.dataset.versions import list_kept, read_history
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import map_in_order, usable_cores
from image_pipeline.components.trees import fetch_file


def verify_data_set(output_dir: str) -> list[Finding]:
    """Checks a data set against its manifest, its index and its own checksums.

    Returns:
      What is wrong, by file and record; empty if the data set is intact.

    Raises:
      UserError: if there is no such folder.
    """
    files.check_text(output_dir, "A data set")
    if not files.exists(output_dir):
        raise UserError(
            explain_no_data_set(output_dir)
            or f"There is no data set {output_dir!r}: no such folder; check the path."
        )
    try:
        manifest = parse_manifest(files.read_file(files.join(output_dir, MANIFEST)))
    except FileNotFoundError:
        problem = "missing, so the data set is incomplete; run again what was writing it"
        return [Finding(MANIFEST, explain_no_data_set(output_dir) or problem)]
    except ValueError as error:
        return [Finding(MANIFEST, f"damaged ({type(error).__name__}: {error}); run ingest again")]
    findings = _check_books(manifest)
    for name, listed in manifest.files.items():
        findings += _check_file(output_dir, name, listed)
    unsound = {finding.file for finding in findings}
    findings += _check_lists(manifest, output_dir, unsound)
    findings += _check_versions(manifest, output_dir)
    shards = list(manifest.list_shards())
    # Other files, which a reader of all files in the splits' folders would wrongly read.
    known, prefix = {shard.file for _, _, shard in shards}, len(files.join(output_dir, ""))
    found = [path[prefix:] for path in files.list_files(output_dir, in_split("*"))]
    strays = [name for name in found if name not in known]
    findings += [Finding(name, "not in the manifest; delete it") for name in strays]
    has_index, written = INDEX not in unsound, manifest.books.written
    if has_index:
        with files.open_input(files.join(output_dir, INDEX)) as file:
            try:
                rows = pq.read_metadata(file).num_rows
            except (pa.ArrowException, OSError) as error:
                raise_shortage(error)
                findings.append(Finding(INDEX, f"not a readable Parquet file: {error}"))
            else:
                if rows != written:
                    findings.append(Finding(INDEX, f"{rows} rows, but {written} records"))
    has_rows = ROWS in manifest.files and ROWS not in unsound
    first_rows = itertools.accumulate((shard.records for _, _, shard in shards), initial=0)
    checked = map_in_order(
        lambda each: check_shard(
            *each[0], output_dir, has_index, manifest, each[1] if has_rows else None
        ),
        zip(shards, first_rows, strict=False),
        usable_cores(),
    )
    findings += itertools.chain(*checked)
    # What no shard's rows tell: the columns' types, and the order of the shards.
    if not any(finding.file == INDEX for finding in findings):
        try:
            trouble = find_problem(fetch_file(files.join(output_dir, INDEX)), manifest)
        except (pa.ArrowException, OSError) as error:
            trouble = f"cannot be read: {error}"
        findings += [Finding(INDEX, trouble)] if trouble else []
    return findings


def _check_books(manifest: Manifest) -> list[Finding]:
    """Checks that the manifest's counts add up."""
    books, splits = manifest.books, manifest.splits.values()
    sums = [
        ("found", books.found, books.accounted),
        ("written", books.written, sum(split.records for split in splits)),
        ("written", books.written, sum(shard.records for _, _, shard in manifest.list_shards())),
        ("written", books.written, sum(sum(own.values()) for own in books.classes.values())),
        ("quarantined", books.quarantined, sum(books.quarantine_reasons.values())),
        ("skipped", books.skipped, sum(books.skipped_kinds.values())),
    ]
    return [
        Finding(MANIFEST, f"does not balance: {listed} {name}, but its parts are {total}")
        for name, listed, total in sums
        if listed != total
    ]


def _check_versions(manifest: Manifest, output_dir: str) -> list[Finding]:
    """Checks that each version follows from the one before, and the indices that are kept."""
    findings = []
    try:
        versions = read_history(output_dir).versions
    except UserError as error:
        return [Finding(HISTORY, str(error))]
    for last, each in zip([None, *versions], versions, strict=False):
        expected = (1, None, 0) if last is None else (last.number + 1, last.manifest, last.after)
        if (each.number, each.parent, each.before) != expected:
            problem = f"its version {each.number} does not follow from the one before"
        elif each.before + each.added - each.removed != each.after:
            sums = f"{each.before} + {each.added} - {each.removed} is not {each.after}"
            problem = f"its version {each.number} does not balance: {sums} records"
        else:
            continue
        findings.append(Finding(HISTORY, problem))
    is_there = manifest.checksum, manifest.books.written
    if versions and (versions[-1].manifest, versions[-1].after) != is_there:
        problem = f"its last version, of {versions[-1].after} records, is not what is there"
        findings.append(Finding(HISTORY, f"{problem}; delete it"))
    for checksum, folder in list_kept(output_dir).items():
        name = f"{VERSIONS}/{checksum}"
        try:
            kept = read_manifest(folder)
        except UserError:
            findings.append(Finding(f"{name}/{MANIFEST}", CHANGED))
            continue
        for file in (INDEX, ROWS):
            found = _check_file(folder, file, kept.files[file])
            findings += [Finding(f"{name}/{file}", finding.problem) for finding in found]
    return findings


def _check_file(output_dir: str, name: str, listed: ListedFile) -> list[Finding]:
    try:
        described = describe_file(files.join(output_dir, name))
    except OSError as error:
        return [Finding(name, explain_unreadable(error))]
    if described.bytes != listed.bytes:
        return [Finding(name, f"{described.bytes} bytes, but the manifest says {listed.bytes}")]
    return [] if described == listed else [Finding(name, CHANGED)]


def _check_lists(manifest: Manifest, output_dir: str, unsound: set[str]) -> list[Finding]:
    """Checks the lists against the counts, and the copies of bad files against the lists."""
    books, findings = manifest.books, []
    if Duplicate.FILE not in unsound:
        repeated = [line for line in read_list(output_dir, Duplicate) if not line.written]
        findings += _check_count(repeated, Duplicate, books.duplicates)
    if books.skipped and Skipped.FILE not in unsound:
        findings += _check_count(read_list(output_dir, Skipped), Skipped, books.skipped)
    if Quarantined.FILE not in unsound:
        bad = read_list(output_dir, Quarantined)
        findings += _check_count(bad, Quarantined, books.quarantined)
        for content, size_bytes in kept_copies(bad).items():
            copy = ListedFile(bytes=size_bytes, sha256=content)
            findings += _check_file(output_dir, name_copy(content), copy)
    return findings


def _check_count(lines: Sequence[Line], kind: type[Line], counted: int) -> list[Finding]:
    trouble = f"lists {len(lines)} files, but the manifest counts {counted}"
    return [] if len(lines) == counted else [Finding(kind.FILE, trouble)]
