"""Runs a command of the pipeline in a process of its own, and measures what it takes."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

# What hangs is ended then; far more than any command needs on a busy machine.
PATIENCE_S = 500
# Linux counts a child's peak from its parent's at the time of the fork, and the tests' process has
# TensorFlow in memory. So a small process in between starts the command and measures it.
_BETWEEN = """
import json, os, resource, sys, time
path, limits, command = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
start = time.monotonic()
pid = os.fork()
if not pid:
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    os.execvp(command[0], command)
_, status, usage = os.wait4(pid, 0)
taken = {
    "code": os.waitstatus_to_exitcode(status),
    "seconds": time.monotonic() - start,
    "cpu_s": usage.ru_utime + usage.ru_stime,
    "peak_mb": usage.ru_maxrss / 1024,
}
open(path, "w").write(json.dumps(taken))
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command did.

    Attributes:
      code: its exit code; negative the signal that ended it.
      output: what it printed, to stdout and to stderr.
      seconds: how long it took.
      cpu_s: the processor time that it and its children took.
      peak_mb: the largest resident memory of it or of a child, in MiB.
    """

    code: int
    output: str
    seconds: float
    cpu_s: float
    peak_mb: float


def run_measured(
    arguments: Sequence[object],
    cwd: str | os.PathLike,
    environment: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
) -> Outcome:
    """Runs `image-pipeline` with these arguments.

    Args:
      arguments: of the command line.
      cwd: the folder to start it in.
      environment: variables besides the present ones.
      limits: resource limits of the process: `{"RLIMIT_AS": bytes}`.

    Raises:
      subprocess.TimeoutExpired: if it has not ended after `PATIENCE_S`.
    """
    script = pathlib.Path(sys.executable).with_name("image-pipeline")
    command = [sys.executable, str(script), *map(str, arguments)]
    return run_python(command, cwd, environment, limits)


def run_python(
    command: Sequence[str],
    cwd: str | os.PathLike,
    environment: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
) -> Outcome:
    """As `run_measured`, for any command."""
    with tempfile.NamedTemporaryFile("r") as taken:
        between = [sys.executable, "-I", "-S", "-c", _BETWEEN, taken.name, json.dumps(limits or {})]
        ran = subprocess.Popen(
            [*between, *command],
            cwd=cwd,
            env=os.environ | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = ran.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, 9)
            ran.communicate()
            raise
        return Outcome(output=output, **json.loads(taken.read()))
