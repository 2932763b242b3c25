"""`read.py`, `write.py` and `growth.py` in small: what needs no other environment."""

import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks.interop.__main__ import draw_images

pytestmark = pytest.mark.e2e

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw_images(tmp_path_factory.mktemp("photos"), each=8)


def _run(script, photos, tmp_path, *arguments):
    path = tmp_path / "raw.json"
    command = [sys.executable, "-W", "ignore", str(BENCHMARKS / script), "--images", str(photos)]
    command += ["--repeats", "1", "--json", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(path.read_text())["results"]


def test_readers_are_checked_and_timed(photos, tmp_path):
    names = ["ours", "bare loop", "tf.data", "keras"]
    options = ["--readers", *names, "--tasks", "train_jpeg", "val_jpeg", "--records", "128"]
    tasks = _run("read.py", photos, tmp_path, *options)["tasks"]
    assert list(tasks["train_jpeg"]) == names[:3], "Keras does not know the task"
    assert list(tasks["val_jpeg"]) == names
    for reader in tasks["val_jpeg"].values():
        assert [entry["images"] for entry in reader["rounds"]] == [128]
    # The others' fast inverse DCT is a level too dark, which is much in drawings of few levels.
    assert [tasks["val_jpeg"][name]["faults"] for name in names[:2]] == [[], []]


def test_a_reader_that_cannot_run_is_said(photos, tmp_path):
    options = ["--readers", "bare loop", "dali", "--python-dali", sys.executable]
    options += ["--tasks", "val_jpeg", "--records", "64"]
    results = _run("read.py", photos, tmp_path, *options)
    assert results["left_out"] == {"dali": "ModuleNotFoundError: No module named 'nvidia'"}
    assert list(results["tasks"]["val_jpeg"]) == ["bare loop"]


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
