"""Refuses limits on addresses (`ulimit -v`) and threads (`ulimit -u`) before a library meets them.

Libraries reserve far more addresses than they use memory: a thread takes 72 MB of them. Where they
get none, or no thread, some end the process without a word (TensorFlow, gRPC), some interrupt it as
Ctrl-C does, and some wait forever (both OpenBLAS).
"""

import contextlib
import importlib.abc
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import usable_cores

# What commands took that import these, in MB: at all, and for each core. (Measured with two.)
_NEEDED_MB = {"numpy": (1000, 0), "apache_beam": (3000, 250), "tensorflow": (5500, 250)}
# Threads for OpenBLAS; and what is sure to be enough for TensorFlow, Beam and our own. So, too.
_NEEDED_THREADS = {"numpy": (2, 1), "tensorflow": (28, 8)}
_MANY_THREADS = 4096  # A limit of so many is no matter.


@contextlib.contextmanager
def guard_imports() -> Iterator[None]:
    """Within the block, importing a large library raises UserError where it cannot work."""
    threads = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    guard = _Guard()
    if is_limited or 0 <= threads < _MANY_THREADS:
        sys.meta_path.insert(0, guard)
    try:
        yield
    finally:
        if guard in sys.meta_path:
            sys.meta_path.remove(guard)


class _Guard(importlib.abc.MetaPathFinder):
    """Finds no module, and so leaves that to the others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        """Called before each import of a module that is not there yet."""
        if name in _NEEDED_MB:
            _check_addresses(_count(*_NEEDED_MB[name]))
        if name in _NEEDED_THREADS:
            _check_threads(_count(*_NEEDED_THREADS[name]))


def _count(at_all: int, for_each_core: int) -> int:
    return at_all + for_each_core * usable_cores()


def _check_addresses(needed_mb: int) -> None:
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    allowed_mb = allowed // 2**20
    if allowed != resource.RLIM_INFINITY and allowed_mb < needed_mb:
        raise UserError(
            f"This needs {needed_mb:,} MB of address space, most of which it never "
            f"uses, and `ulimit -v` allows {allowed_mb:,} MB; set `ulimit -v unlimited`, or "
            f"{needed_mb * 1024}, and bound the memory in use by a container's limit instead."
        )


def _check_threads(needed: int) -> None:
    """Tries it: how many of the user's processes count, and whether root's do, is the system's."""
    end, started = threading.Event(), []
    try:
        for _ in range(needed):
            thread = threading.Thread(target=end.wait)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise UserError(
            f"This needs {needed} threads, and only {len(started)} more can be started; "
            "allow more of them (`ulimit -u`, which counts all processes of a user)."
        ) from error
    finally:
        end.set()
        for thread in started:
            thread.join()
