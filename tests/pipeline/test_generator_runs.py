"""Generators through the command line: from the user's own folder to a data set, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from image_pipeline.components.dataset.manifest import read_manifest

pytestmark = pytest.mark.e2e

_MODULE = """
    import os, pathlib, time
    import numpy as np

    def records(shard, shards):
        for number in range(shard, 60, shards):
            image = np.random.default_rng(number).integers(0, 256, (8, 10, 3), np.uint8)
            yield {"image": image, "label": "cat" if number % 2 else "dog", "age": number}

    def endless(shard, shards):
        print("the generator's own words")
        for number in range(40):  # More than the sample has.
            yield np.full((4, 4, 3), number, np.uint8), "cat"
        pathlib.Path(f"reached-{shard}-{os.getpid()}").touch()
        while True:
            time.sleep(0.05)
"""
_MAIN = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from image_pipeline.cli import main; main()"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my_records.py").write_text(textwrap.dedent(_MODULE))
    return tmp_path


def _start(folder, *arguments):
    command = [sys.executable, "-c", _MAIN, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.wide
def test_a_generator_is_ingested_and_again(folder):
    arguments = ["ingest", "--images", "generator:my_records:records", "--output", "out", "--json"]
    arguments += ["--set", "ingest.generator={shards: 4}"]
    for _ in range(2):
        ran = _start(folder, *arguments)
        told, errors = ran.communicate(timeout=600)
        assert ran.returncode == 0, errors
        assert json.loads(told)["written"] == 60
    manifest = read_manifest(str(folder / "out"))
    assert manifest.options["generator"] == {"shards": 4, "errors": "stop", "version": ""}
    assert manifest.options["column_types"] == {"age": "int"}


@pytest.mark.wide
def test_other_commands_say_what_a_generator_is_not(folder):
    for command, said in (
        (["plan", "--images", "generator:my_records:records"], "nothing is forecast"),
        (["ingest", "--images", "generator:my_record:records", "--output", "o"], "my_record"),
        (["ingest", "--images", "generator:my_records:other", "--output", "o"], "no 'other'"),
    ):
        ran = _start(folder, *command)
        _, errors = ran.communicate(timeout=600)
        assert ran.returncode == 1 and said in errors and len(errors.splitlines()) <= 2


def test_ctrl_c_ends_all_processes(folder):
    arguments = ["ingest", "--images", "generator:my_records:endless", "--output", "out"]
    ran = _start(folder, *arguments, "--set", "ingest.generator={shards: 2}")
    while not (reached := list(folder.glob("reached-*"))) and ran.poll() is None:
        time.sleep(0.1)
    workers = [psutil.Process(int(path.name.split("-")[2])) for path in reached]
    assert workers and all(worker.is_running() for worker in workers)
    os.kill(ran.pid, signal.SIGINT)
    told, errors = ran.communicate(timeout=600)
    assert ran.returncode == 128 + signal.SIGINT
    assert "Stopped by Ctrl-C" in errors and "own words" not in told
    assert psutil.wait_procs(workers, timeout=60)[1] == []
