"""Processor time and memory of a process and of those below it."""

import subprocess
import sys

import pytest

from benchmarks.rivals.usage import cpu_s, peak_mb

pytestmark = pytest.mark.unit

# Works for half a second of processor time, says so, and waits.
_WORK = """
import time
kept = b"x" * 100_000_000
while time.process_time() < 0.5:
    pass
print("done", flush=True)
input()
"""


@pytest.mark.parametrize("depth", [1, 2])
def test_a_process_that_lives_is_counted(depth):
    shell = ["bash", "-c", '"$0" -c "$1"; true'] if depth == 2 else []
    command = [*shell, sys.executable, _WORK] if shell else [sys.executable, "-c", _WORK]
    before, before_mb = cpu_s(), peak_mb()
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "done\n"
    used, used_mb = cpu_s() - before, peak_mb() - before_mb
    process.communicate("\n")
    ended = cpu_s() - before
    assert 0.45 < used < 5 and ended >= used - 0.02  # a tick, twice
    assert used_mb > 95
