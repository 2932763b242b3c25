"""Processor time and memory of this process and of all the processes that it has started."""

import os
import pathlib
import re
import resource

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat, behind the name: the parent; ticks in user and system, its own and its ended
# children's.
_PARENT, _TICKS = 1, slice(11, 15)


def cpu_s() -> float:
    """User and system seconds of all threads, and of all processes below this one.

    Of processes that live, ticks of 10 ms are counted; of this one, and of those that
    have ended, microseconds.
    """
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own_s = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return own_s + _TICK_S * sum(ticks for _, ticks in _descendants())


def peak_mb() -> float:
    """The most memory that this process has had resident, in MiB, and the processes' below it now.

    What these share with one another is counted once (their proportional set size). From /proc,
    because `getrusage` also counts the parent's at the time of the fork.
    """
    own = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())
    assert own is not None, "Linux says so of every process"
    below = sum(_shared_kb(pid) for pid, _ in _descendants())
    return (int(own[1]) + below) / 1024


def _shared_kb(pid: int) -> int:
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # It has ended meanwhile.
        return 0
    found = re.search(r"Pss:\s+(\d+) kB", text)
    return int(found[1]) if found else 0


def _descendants() -> list[tuple[int, int]]:
    """Number and ticks of every process below this one."""
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path("/proc", name, "stat").read_text()
        except OSError:  # It has ended meanwhile.
            continue
        fields = stat.rpartition(")")[2].split()
        parents[int(name)] = int(fields[_PARENT])
        ticks[int(name)] = sum(map(int, fields[_TICKS]))
    below, wanted = [], {os.getpid()}
    while wanted:
        wanted = {pid for pid, parent in parents.items() if parent in wanted}
        below += [(pid, ticks[pid]) for pid in wanted]
    return below
