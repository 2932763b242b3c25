"""A data set of a right manifest and shards of any bytes, for whoever only copies it."""

import hashlib

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import ListedFile
from image_pipeline.components.dataset.manifest import (
    FORMAT_VERSION,
    Books,
    ListedShard,
    ListedSplit,
    Manifest,
)
from image_pipeline.components.dataset.paths import INDEX, MANIFEST, name_shard


def write_listed(folder: str, shards: dict[str, list[bytes]]) -> Manifest:
    """Writes each split's shards, said to hold a record for each byte, an index and a manifest."""
    splits = {}
    for split, contents in shards.items():
        listed = []
        for number, content in enumerate(contents):
            name = name_shard(split, number, len(contents))
            files.write_file(files.join(folder, name), content)
            found = _describe(content)
            listed.append(ListedShard(file=name, records=len(content), **found.model_dump()))
        size = sum(map(len, contents))
        splits[split] = ListedSplit(records=size, bytes=size, shards=listed)
    files.write_file(files.join(folder, INDEX), b"index")
    records = sum(split.records for split in splits.values())
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        books=Books(
            **dict.fromkeys(("found", "written"), records),
            **dict.fromkeys(("duplicates", "quarantined", "conflicting_labels"), 0),
            quarantine_reasons={},
            classes={},
        ),
        splits=splits,
        files={INDEX: _describe(b"index")},
        options={},
    )
    files.write_file(files.join(folder, MANIFEST), manifest.to_bytes())
    return manifest


def _describe(content: bytes) -> ListedFile:
    return ListedFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
