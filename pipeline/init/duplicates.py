"""How many of a folder's files are copies of another, estimated from some of them."""

import collections
import hashlib
import random
from collections.abc import Iterable, Sequence

from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.sources.reading import try_read
from image_pipeline.components.sources.references import ImageRef, Source

# What is read at most; whole groups of files of one size are.
_MOST_FILES = 1000
_MOST_BYTES = 200 * 2**20


def estimate_duplicates(source: Source, refs: Iterable[ImageRef], seed: int = 0) -> float:
    """Estimates the share of files that have the bytes of another one, which is kept.

    Only files of one size can be the same: of these groups, some are read, drawn at random.

    Returns:
      The share, exact if all groups could be read.
    """
    groups, total = _group_by_size(refs)
    random.Random(seed).shuffle(groups)
    candidates, files, size_bytes, copies = sum(map(len, groups)), 0, 0, 0
    for group in groups:
        if files and (files + len(group) > _MOST_FILES or size_bytes > _MOST_BYTES):
            break
        some = group[:_MOST_FILES]
        files += len(some)
        size_bytes += sum(ref.size_bytes for ref in some)
        copies += _count_copies(source, some)
    return copies / files * candidates / total if files else 0.0


def are_few(refs: Sequence[ImageRef]) -> bool:
    """Tells whether all files are so few and small that they are read to know what ingest does."""
    return len(refs) <= _MOST_FILES and sum(ref.size_bytes for ref in refs) <= _MOST_BYTES


def _group_by_size(refs: Iterable[ImageRef]) -> tuple[list[Sequence[ImageRef]], int]:
    """The groups of two files and more that have one size, and the number of all files."""
    by_size: dict[int, list[ImageRef]] = collections.defaultdict(list)
    for ref in refs:
        by_size[ref.size_bytes].append(ref)
    groups: list[Sequence[ImageRef]] = [group for group in by_size.values() if len(group) > 1]
    return groups, sum(map(len, by_size.values()))


def _count_copies(source: Source, refs: Sequence[ImageRef]) -> int:
    contents = [try_read(ref, source, PrepareOptions().max_file_bytes) for ref in refs]
    read = [content for content in contents if isinstance(content, bytes)]
    return len(read) - len({hashlib.sha256(content).digest() for content in read})
