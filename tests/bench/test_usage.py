"""Processor time and memory of a process and of those below it."""

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

_ROOT = pathlib.Path(__file__).parents[2]

# Works for half a second of processor time, says so, and waits.
_WORK = """
import time
kept = b"x" * 100_000_000
while time.process_time() < 0.5:
    pass
print("done", flush=True)
input()
"""

# Starts it and prints what it has used so far, when it still lives and when it has ended.
_MEASURE = """
import json, subprocess, sys
from benchmarks.rivals.usage import cpu_s, peak_mb

before, before_mb = cpu_s(), peak_mb()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert process.stdout.readline() == "done\\n"
living, living_mb = cpu_s() - before, peak_mb() - before_mb
process.communicate("\\n")
print(json.dumps([living, living_mb, cpu_s() - before]))
"""


@pytest.mark.parametrize("depth", [1, 2])
def test_a_process_that_lives_is_counted(depth):
    shell = ["bash", "-c", '"$0" -c "$1"; true'] if depth == 2 else []
    command = [*shell, sys.executable, _WORK] if shell else [sys.executable, "-c", _WORK]
    # In a process of its own: below that of the tests, an earlier one's process may just be ending.
    measured = subprocess.check_output([sys.executable, "-c", _MEASURE, *command], cwd=_ROOT)
    living, living_mb, ended = json.loads(measured)
    assert 0.45 < living < 5 and ended >= living - 0.02  # a tick, twice
    assert living_mb > 95
