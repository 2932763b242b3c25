"""Patterns of files as a shell has them: `*`, `?`, `[a-c]`, `{000..012}` and `{a,b}`."""

import glob
import itertools
import os
import re

from image_pipeline.components import files

WILD = re.compile(r"[*?\[]|\{[^{}]*(?:\.\.|,)[^{}]*\}")
"""What makes a path a pattern."""

_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")


def find_matching(pattern: str) -> list[str]:
    """The files of a pattern, sorted, and what braces name, whether or not it is there.

    What is no pattern, or is the name of a file, is that file.
    """
    if not WILD.search(pattern) or (files.is_local(pattern) and os.path.isfile(pattern)):
        return [pattern]
    found: set[str] = set()
    for each in _expand(pattern):
        folder, _, name = each.rpartition("/")
        if not WILD.search(each):
            found.add(each)
        elif files.is_local(each):
            found.update(path for path in glob.glob(each) if os.path.isfile(path))
        else:
            found.update(files.list_files(folder, name))
    return sorted(found)


def _expand(pattern: str) -> list[str]:
    """What a shell makes of braces."""
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    first, last, listed = found.groups()
    inside = listed.split(",") if first is None else _count(first, last)
    before, after = pattern[: found.start()], pattern[found.end() :]
    return list(itertools.chain.from_iterable(_expand(f"{before}{i}{after}") for i in inside))


def _count(first: str, last: str) -> list[str]:
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
