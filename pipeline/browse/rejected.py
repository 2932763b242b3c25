"""The files that did not become records, as rows like those of the index."""

from image_pipeline.components.dataset.lists import Duplicate, Quarantined, Skipped, read_list
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.names import decode_name

# A duplicate's reason; the others have theirs from ingest.
DUPLICATE = "duplicate"


def list_rejected(data_dir: str, manifest: Manifest) -> list[dict]:
    """What the lists beside the shards say of files without a record.

    Args:
      data_dir: the data set's folder.
      manifest: its manifest.

    Returns:
      A row for each quarantined file, each duplicate that was not written, and each skipped file:
      `state`, `source` (the path as the index would have it), `path` (as the file system has it),
      `label`, `notes` (its reason), `message`, `source_bytes`, `sha256`.
    """
    rows = [
        _row("quarantined", line.path, line.reason, line.message, line.bytes, sha256=line.sha256)
        for line in read_list(data_dir, Quarantined)
    ]
    for line in read_list(data_dir, Duplicate):
        if not line.written:
            said = f"has the bytes of {line.original}"
            rows.append(_row(DUPLICATE, line.path, DUPLICATE, said, None, label=line.label))
    # Only data sets with skipped files have that list.
    skipped = read_list(data_dir, Skipped) if manifest.books.skipped else []
    rows += [_row("skipped", each.path, each.kind, each.message, each.bytes) for each in skipped]
    return rows


def _row(
    state: str,
    path: str,
    reason: str,
    message: str,
    source_bytes: int | None,
    label: str | None = None,
    sha256: str | None = None,
) -> dict:
    return {
        "state": state,
        "source": decode_name(path),
        "path": path,
        "label": label,
        "notes": [reason],
        "message": message,
        "source_bytes": source_bytes,
        "sha256": sha256,
    }
