"""How much memory is free, on the machine or in the containers around this process.

The kernel's page cache counts as used by a container, but is released when needed: its part that
has not been used lately (`inactive_file`) is free.
"""

import pathlib
from collections.abc import Iterator

import psutil

_ROOT = pathlib.Path("/sys/fs/cgroup")
# Lines such as "0::/group" (version 2) or "4:memory:/group" (version 1).
_OWN_GROUPS = pathlib.Path("/proc/self/cgroup")


def free_bytes() -> int:
    """The free memory: the machine's, or that of the tightest container around this process."""
    machine = psutil.virtual_memory().available
    return max(0, min([machine, *_free_in_version_2(), *_free_in_version_1()]))


def _free_in_version_2() -> Iterator[int]:
    names = ("memory.max", "memory.current", "inactive_file")
    for folder in _folders(_ROOT, ""):
        yield from _free_in(folder, *names)


def _free_in_version_1() -> Iterator[int]:
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    for folder in _folders(_ROOT / "memory", "memory"):
        yield from _free_in(folder, *names)


def _folders(root: pathlib.Path, controller: str) -> list[pathlib.Path]:
    """The process's control group and all its parents: each may have a limit.

    Within a container, its own group may be the root, whatever the group's path says.
    """
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        lines = []
    paths = [line.split(":", 2)[2] for line in lines if line.split(":")[1:2] == [controller]]
    own = [root / path.lstrip("/") for path in paths]
    around = [parent for folder in own for parent in folder.parents if root in parent.parents]
    return list(dict.fromkeys([root, *own, *around]))


def _free_in(folder: pathlib.Path, limit: str, used: str, inactive: str) -> Iterator[int]:
    """The limit less the used memory that cannot be released; nothing if there is no limit."""
    try:
        most = (folder / limit).read_text().strip()
        held = int((folder / used).read_text())
        if most != "max":
            yield int(most) - max(0, held - _read_stat(folder, inactive))
    except (OSError, ValueError):  # No such group, or another kernel's format.
        return


def _read_stat(folder: pathlib.Path, name: str) -> int:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)
