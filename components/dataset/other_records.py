"""Folders of TFRecords that others wrote, in splits as TFX has them: no data set of ours."""

import contextlib
import re
import shlex
import zlib

from image_pipeline.components import files
from image_pipeline.components.dataset.paths import (
    INDEX,
    MANIFEST,
    WORK,
    in_split,
    match_version,
)
from image_pipeline.components.dataset.tfrecord import HEADER_BYTES, CorruptRecord, read_length

_MOST_FILES = 100  # of those that are looked into: a split may have files without a record
_HEAD_BYTES = 2**12
_ANY_PACKING = 47  # zlib's code for gzip and zlib
_OWN_NAME = re.compile(r"data_tfrecord-\d+-of-\d+")


def explain_other_records(folder: str) -> str | None:
    """What a folder without a manifest is, and what ingests it; None if it has no such records.

    Nor is it such a folder if it has an index, which ingest writes after the records.
    """
    folder = folder.rstrip("/")
    found = files.list_files(folder, in_split("*"))
    heads = []
    for path in found[:_MOST_FILES]:
        with contextlib.suppress(OSError):  # A folder, or a pipe.
            heads.append(files.read_file(path, 0, _HEAD_BYTES))
    packed = any(_begins_record(_unpack(head)) for head in heads)
    has_records = packed or any(map(_begins_record, heads))
    if not has_records or files.exists(files.join(folder, INDEX)):
        return None
    splits = ", ".join(dict.fromkeys(path.rpartition("/")[0].rpartition("/")[2] for path in found))
    # Ours are never packed, and all are called so.
    is_own = not packed and all(_OWN_NAME.fullmatch(p.rpartition("/")[2]) for p in found)
    again = " Or, if it was ingest that was writing it, run that again." if is_own else ""
    return (
        f"{folder!r} has no {MANIFEST}, but TFRecords in {splits}, as ImportExampleGen and other "
        "programs write them. Ingest them, which keeps the splits: image-pipeline ingest "
        f"--images {shlex.quote(f'tfrecord:{folder}')} --output data; in a TFX pipeline, by "
        f'ImageExampleGen("tfrecord:{folder}").{again}'
    )


def explain_version_name(folder: str) -> str | None:
    """What is wrong with naming a version of a data set, as `data@2`, where images are needed.

    Returns:
      A sentence; None if the name is not one of a version, or there is a folder that is called so.
    """
    match = match_version(folder)
    if match is None or files.exists(folder):
        return None
    root = match["root"]
    if not files.exists(files.join(root, MANIFEST)):
        return None
    return (
        f"{folder!r} names a version of the data set {root!r}, and only `diff` and `seen --data` "
        "take that: of versions that were replaced the index alone is kept, without images. Name "
        f"{root!r}, the version that is there; or, for another one, ingest the images of then into "
        "another folder."
    )


def explain_no_data_set(folder: str) -> str | None:
    """What a folder without a manifest is and what to do with it; None if it is to be one of ours.

    Args:
      folder: which has no manifest, or its URI; it need not exist.
    """
    if why := explain_version_name(folder) or explain_other_records(folder):
        return why
    begun = any(files.exists(files.join(folder, name)) for name in (INDEX, WORK))
    if begun or files.list_files(folder, in_split("*")) or not files.exists(folder):
        return None
    return (
        f"{folder!r} is not a data set: it has neither {MANIFEST} nor shards; give the folder that "
        "ingest wrote. If it holds images, ingest them first: image-pipeline ingest --images "
        f'{shlex.quote(folder)} --output data; in Python, ingest({folder!r}, "data").'
    )


def _unpack(head: bytes) -> bytes:
    with contextlib.suppress(zlib.error):
        return zlib.decompressobj(_ANY_PACKING).decompress(head, HEADER_BYTES)
    return b""


def _begins_record(head: bytes) -> bool:
    """Whether it begins with the length of a record and its checksum."""
    with contextlib.suppress(CorruptRecord):
        return len(head) >= HEADER_BYTES and read_length(head[:HEADER_BYTES]) >= 0
    return False
