"""Raw results: one JSON file a benchmark, with the machine, the versions, the date and the commit.

The standard library only: scripts import this as `bench.raw`, modules as `benchmarks.bench.raw`.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of this project's own environment; the rivals' stand in benchmarks/requirements.
_PACKAGES = ("apache-beam", "keras", "numpy", "opencv-python-headless", "pillow", "simplejpeg")
_PACKAGES += ("tensorflow", "tensorflow-transform")
# Arguments that say where things lie on one machine, and nothing of what was measured.
_PATHS = ("images", "cifar", "keep", "json", "python_ffcv", "python_dali", "write", "build", "work")


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """The option that every benchmark of `make bench` has."""
    parser.add_argument("--json", type=pathlib.Path, help="a file for the raw results")


def write_raw(
    path: pathlib.Path | None, benchmark: str, arguments: argparse.Namespace, results: Any
) -> None:
    """Writes a benchmark's raw results.

    Args:
      path: the file; nothing is written for None.
      benchmark: its name, that of the section in RESULTS.md.
      arguments: the command line; what names a place on this machine is left out.
      results: anything that JSON can hold.
    """
    if path is None:
        return
    said = {name: value for name, value in vars(arguments).items() if name not in _PATHS}
    raw = {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": find_commit(),
        "machine": describe_machine(),
        "versions": {"python": platform.python_version()} | _find_versions(),
        "arguments": said,
        "results": results,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(raw, indent=1, default=str) + "\n")


def describe_machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory in GiB, and system."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "processor": _find_processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _find_processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def find_commit() -> str:
    """The commit that was measured, with a "+" if files differed from it; "unknown" without git."""
    commit = _ask_git("rev-parse", "--short", "HEAD")
    changed = _ask_git("status", "--porcelain", "--untracked-files=no", "--", "components")
    return (commit or "unknown") + ("+" if changed else "")


def _ask_git(*arguments: str) -> str:
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:  # There is no git.
        return ""
    return done.stdout.strip()


def _find_versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
