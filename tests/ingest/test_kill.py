"""`kill -9` at random moments: the next run goes on, and the bytes are those of a run in peace.

INGEST_KILLS=20 in the environment makes it twenty moments instead of three.
"""

import os
import random
import subprocess
import sys
import time

import pytest

from tests.drawings import write_folder
from tests.ingest_runs import read_files
from tests.tiers import wide

pytestmark = pytest.mark.beam

KILLS = int(os.environ.get("INGEST_KILLS", "3"))

_INGEST = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.ingest.run import run_ingest

images, output = sys.argv[1:]
options = IngestOptions(shards=40, prepare={"encoding": "png"})
print("ready", flush=True)
run_ingest(images, output, output + "/.work", options,
           lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))))
"""


def _start(images, output):
    """Starts an ingest and returns when all is imported and the work begins."""
    process = subprocess.Popen(
        [sys.executable, "-c", _INGEST, str(images), str(output)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("kill") / "images", per_class=1000)


@pytest.fixture(scope="module")
def in_peace(images, tmp_path_factory):
    """The bytes of an uninterrupted ingest, and after how many seconds it is whole."""
    output = tmp_path_factory.mktemp("in_peace")
    process = _start(images, output)
    started = time.monotonic()
    while not (output / "manifest.json").exists():
        time.sleep(0.01)
    seconds = time.monotonic() - started
    assert process.wait() == 0
    return read_files(output), seconds


@pytest.mark.parametrize("number", [0, *map(wide, range(1, KILLS))])
def test_a_killed_ingest_goes_on(images, in_peace, tmp_path, number):
    expected, seconds = in_peace
    process = _start(images, tmp_path)
    time.sleep(random.Random(number).uniform(0, seconds))
    process.kill()
    process.wait()
    shards = {path: path.stat().st_mtime_ns for path in tmp_path.glob("Split-*/*-of-00040")}
    whole = (tmp_path / "manifest.json").exists()
    assert _start(images, tmp_path).wait() == 0
    if not whole:  # After a whole run its working folder is gone, so all is written again.
        assert {path: path.stat().st_mtime_ns for path in shards} == shards
    print(f"killed with {len(shards)} of 80 shards finished; manifest there: {whole}")
    assert read_files(tmp_path) == expected
