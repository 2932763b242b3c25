"""`read.py`, `write.py` and `growth.py` in small: what needs no other environment."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """JPEGs of 240 x 320 px, smooth and of full contrast, as photos are."""
    folder, generator = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(40):  # As many as it takes for one of them to be in the eval split.
        small = Image.fromarray(generator.integers(0, 256, (12, 16, 3), np.uint8))
        image = small.resize((320, 240), Image.Resampling.BICUBIC)
        image.save(folder / f"{number}.jpg", quality=90)
    return folder


def _run(script, photos, tmp_path, *arguments):
    path = tmp_path / "raw.json"
    command = [sys.executable, "-W", "ignore", str(BENCHMARKS / script), "--images", str(photos)]
    command += ["--repeats", "1", "--json", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(path.read_text())["results"]


def test_readers_are_checked_and_timed(photos, tmp_path):
    names = ["ours", "bare loop", "keras"]
    options = ["--readers", *names, "dali", "--python-dali", sys.executable]
    options += ["--tasks", "val_jpeg", "--records", "64"]
    results = _run("read.py", photos, tmp_path, *options)
    assert results["left_out"] == {"dali": "ModuleNotFoundError: No module named 'nvidia'"}
    readers = results["tasks"]["val_jpeg"]
    assert list(readers) == names
    for name, reader in readers.items():
        assert reader["faults"] == [], name
        assert [entry["images"] for entry in reader["rounds"]] == [64]


def test_writers_write_every_photo(photos, tmp_path):
    options = ["--writers", "ours", "script", "tf.Transform"]
    results = _run("write.py", photos, tmp_path, *options)
    assert results["left_out"] == {}
    for rounds in results["writers"].values():
        assert rounds[0]["images"] == results["images"] > 0 and rounds[0]["bytes"] > 1_000


def test_growth_counts_every_size(photos, tmp_path):
    results = _run("growth.py", photos, tmp_path, "--sizes", "1", "2", "--records", "6")
    for stage, rounds in results["stages"].items():
        assert [entry["images"] for entry in rounds] == [6, 12], stage


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
