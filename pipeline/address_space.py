"""Refuses a limit on address space (`ulimit -v`) before a library meets it.

Libraries reserve far more addresses than they use memory: a thread takes 72 MB of them. Where they
get none, some end the process without a word (TensorFlow, gRPC), and some wait forever (OpenBLAS).
"""

import importlib.abc
import resource
import sys
from collections.abc import Sequence
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import usable_cores

# What commands took that import these, in MB: at all, and for each core. (Measured with two.)
_NEEDED_MB = {"numpy": (1000, 0), "apache_beam": (3000, 250), "tensorflow": (5500, 250)}


def guard_imports() -> None:
    """From now on, importing a large library raises UserError where it cannot work."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        sys.meta_path.insert(0, _Guard())


class _Guard(importlib.abc.MetaPathFinder):
    """Finds no module, and so leaves that to the others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        """Called before each import of a module that is not there yet."""
        if name not in _NEEDED_MB:
            return
        at_all, for_each_core = _NEEDED_MB[name]
        needed_mb = at_all + for_each_core * usable_cores()
        allowed_mb = resource.getrlimit(resource.RLIMIT_AS)[0] // 2**20
        if allowed_mb < needed_mb:
            raise UserError(
                f"This command needs {needed_mb:,} MB of address space, most of which it never "
                f"uses, and `ulimit -v` allows {allowed_mb:,} MB; set `ulimit -v unlimited`, or "
                f"{needed_mb * 1024}, and bound the memory in use by a container's limit instead."
            )
