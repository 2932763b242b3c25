"""The operating system's copies of files in memory, which make a second reading fast."""

import os
from collections.abc import Sequence

import psutil

from image_pipeline.components import files


def drop_cached_pages(paths: Sequence[str]) -> bool:
    """Makes the operating system drop its cached copies of some files, so that the disk is read.

    Returns:
      Whether that was possible: only for local files on Linux.
    """
    if not hasattr(os, "posix_fadvise") or not all(files.is_local(path) for path in paths):
        return False
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return True


def stays_in_memory(paths: Sequence[str]) -> bool:
    """Whether the operating system can hold all these files, so that only one epoch reads them."""
    if not all(files.is_local(path) for path in paths):
        return False
    return sum(os.path.getsize(path) for path in paths) <= psutil.virtual_memory().available
