"""Processor time and memory of this process and of all the processes that it has started."""

import os
import pathlib
import re
import resource

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat, behind the name: ticks in user and system, its own and its ended children's.
_TICKS = slice(11, 15)


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
    """Number and ticks of every process below this one.

    By the kernel's lists of children: to look at every process would itself cost milliseconds.
    """
    below: list[tuple[int, int]] = []
    wanted = _list_children(os.getpid())
    while wanted:
        pid = wanted.pop()
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            wanted += _list_children(pid)
        except OSError:  # It has ended meanwhile.
            continue
        ticks = stat.rpartition(")")[2].split()[_TICKS]
        below.append((pid, sum(map(int, ticks))))
    return below


def _list_children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            text = pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text()
        except OSError:  # The thread has ended meanwhile.
            continue
        found += map(int, text.split())
    return found
