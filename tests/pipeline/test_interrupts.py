"""Real signals to real processes, at every stage: one line, soon, and all goes on.

A stage of the process is planted with a function that leaves a sign and never ends, so that the
signal comes in the midst of that stage on any machine.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from image_pipeline.cli import call
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_graph
from tests import warm
from tests.drawings import write_folder
from tests.graphs import read_graph_files
from tests.tiers import wide

pytestmark = pytest.mark.e2e

_PROCESS = """
import importlib, importlib.abc, os, pathlib, signal, sys, time

# Of a process that a script has begun in the background, the shell has Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
place, sign, *arguments = sys.argv[1:]

def stay(*_, **__):
    pathlib.Path(sign).touch()
    while True:
        time.sleep(0.05)

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == place:
            stay()

module, _, names = place.partition(":")
if names:
    terminal, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # Imported here, libraries are not yet kept from the terminal.
    *owners, name = names.split(".")
    owner = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    setattr(owner, name, stay)
    os.dup2(terminal, 2)
else:
    sys.meta_path.insert(0, Finder())
sys.argv = ["image-pipeline", *arguments]
from image_pipeline.cli import main
main()
"""
# How long to wait for a stage or an end: far more than any machine takes.
_PATIENCE_S = 500
_SMALL = ("--set", "view.height_px=8", "--set", "view.width_px=8", "--set", "training.epochs=1")
_EVALUATE = (
    "tensorflow_model_analysis.utils.model_util:ModelSignaturesDoFn._batch_reducible_process"
)
ENDS = {
    signal.SIGINT: (
        130,
        "Stopped by Ctrl-C; what is finished is kept; run the same command again.\n",
    ),
    signal.SIGTERM: (
        143,
        "Stopped by SIGTERM; what is finished is kept; run the same command again.\n",
    ),
    signal.SIGHUP: (
        129,
        "Stopped by SIGHUP; what is finished is kept; run the same command again.\n",
    ),
    signal.SIGKILL: (-9, ""),
}


def _interrupt(folder, place, number, *arguments, times=1):
    """Runs a command up to a place, and sends it a signal; what it wrote to the terminal."""
    sign, scratch = folder / "sign", folder / "scratch"
    sign.unlink(missing_ok=True)
    scratch.mkdir(exist_ok=True)
    # A place without a function is in an import, which a process must do for itself.
    python = warm.python() if ":" in place else [sys.executable]
    process = subprocess.Popen(
        [*python, "-c", _PROCESS, place, str(sign), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    until_s = time.monotonic() + _PATIENCE_S
    while not sign.exists() and process.poll() is None and time.monotonic() < until_s:
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
    assert sign.exists()
    for _ in range(times):
        process.send_signal(number)
    try:
        out, err = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"{place} goes on after the signal: {process.communicate()}")
    assert (process.returncode, err) == ENDS[number], out
    if number != signal.SIGKILL:
        assert list(scratch.iterdir()) == []
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("interrupts")
    write_folder(made / "images", per_class=20)
    return made


INGEST = ("ingest", "--images", "images", "--output", "data", "--set", "ingest.shards=3")


def _in(folder, arguments):
    """Arguments of which some name things in a folder."""
    named = {"images", "data", "graph", "out", "report.html"}
    return [str(folder / each) if each in named else each for each in arguments]


# Each goes on upon what the ones before it left.
INGEST_ENDS = [
    ("image_pipeline.run.preflight:survey_images", signal.SIGTERM),  # before Beam
    ("apache_beam", signal.SIGINT),  # while it is imported
    # In a Beam stage, on threads.
    ("image_pipeline.components.ingest.prepare_chunk:prepare_image", signal.SIGINT),
    ("image_pipeline.components.ingest.run:write_shard", signal.SIGTERM),
]


def test_an_ingest_stops_and_goes_on(folder, tmp_path):
    (tmp_path / "images").symlink_to(folder / "images")
    for place, number in INGEST_ENDS:
        _interrupt(tmp_path, place, number, *_in(tmp_path, INGEST))
    assert call(_in(tmp_path, INGEST)) == 0
    assert read_manifest(str(tmp_path / "data")).books.written == 40
    assert list(tmp_path.rglob("*.tmp")) == [] and not (tmp_path / "data" / ".work").exists()


@pytest.fixture(scope="module")
def data(folder):
    assert call(_in(folder, INGEST)) == 0
    return folder


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("image_pipeline.components.dataset.verify:check_shard", ("verify", "data")),
        (
            "image_pipeline.components.feeding.verify_epoch:_read_step",
            ("verify", "data", "--epoch", "0"),
        ),
        ("image_pipeline.report.page:render_page", ("report", "data", "--output", "report.html")),
    ],
)
def test_a_command_stops(data, tmp_path, place, arguments):
    _interrupt(tmp_path, place, signal.SIGINT, *_in(data, arguments))
    assert not (data / "report.html").exists()


def test_a_process_that_outlives_its_terminal_goes_on(data, tmp_path):
    """`nohup` has SIGHUP ignored."""
    sign, go_on = tmp_path / "sign", tmp_path / "go on"
    code = """
import pathlib, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sign, go_on, *sys.argv[1:] = sys.argv[1:]
from image_pipeline.components.dataset import verify
check_shard = verify.check_shard

def wait(*arguments, **options):
    pathlib.Path(sign).touch()
    while not pathlib.Path(go_on).exists():
        time.sleep(0.02)
    return check_shard(*arguments, **options)

verify.check_shard = wait
from image_pipeline.cli import main
main()
"""
    process = subprocess.Popen(
        [*warm.python(), "-c", code, str(sign), str(go_on), "verify", str(data / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not sign.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGHUP)
    go_on.touch()
    out, _ = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 0, out


_ANALYZE = ("analyze", "data", "--output", "graph", "--quiet")


@pytest.fixture(scope="module")
def undisturbed(data):
    """A graph, and an earlier one of another size."""
    for name, side in (("earlier", 6), ("fresh", 8)):
        size = [f"--set=view.{which}_px={side}" for which in ("height", "width")]
        assert call([*_in(data, _ANALYZE[:3]), str(data / name), "--quiet", *size]) == 0
    return data


_TRANSFORM = "image_pipeline.components.transform"


# Each in one list goes on upon what the ones before it left, the last upon the whole list's.
@pytest.mark.parametrize(
    "ends",
    [
        wide([("tensorflow_transform", signal.SIGHUP)]),
        wide([("tensorflow_transform", signal.SIGKILL)]),
        wide([(f"{_TRANSFORM}.run:read_view_batches", signal.SIGINT)]),
        [
            (f"{_TRANSFORM}.run:read_view_batches", signal.SIGKILL),
            (f"{_TRANSFORM}.finish:copy_tree", signal.SIGHUP),
            (f"{_TRANSFORM}.finish:copy_tree", signal.SIGKILL),
            (f"{_TRANSFORM}.finish:send_tree", signal.SIGKILL),
        ],
        wide([(f"{_TRANSFORM}.finish:write_summary", signal.SIGTERM)]),
        [(f"{_TRANSFORM}.finish:write_summary", signal.SIGKILL)],
    ],
)
def test_an_analysis_that_ends_leaves_the_earlier_graph_or_none_and_is_made_anew(
    undisturbed, tmp_path, ends
):
    graph = tmp_path / "graph"
    shutil.copytree(undisturbed / "earlier", graph)
    (tmp_path / "data").symlink_to(undisturbed / "data")
    words = [*_in(tmp_path, _ANALYZE), *_SMALL[:4]]
    for place, number in ends:
        _interrupt(tmp_path, place, number, *words)
        if place.endswith((":send_tree", ":write_summary")):
            with pytest.raises(UserError, match="is not a transform graph's folder"):
                read_graph(str(graph))
        else:
            assert read_graph_files(graph) == read_graph_files(undisturbed / "earlier")
    assert call(words) == 0
    assert read_graph_files(graph) == read_graph_files(undisturbed / "fresh")
    assert list(graph.rglob("*.tmp")) == [] and not (graph / ".lock").exists()


RUN = ("run", "--images", "images", "--output", "out", *_SMALL)


def test_a_run_stops_while_tfx_is_imported(folder, tmp_path):
    out = _interrupt(tmp_path, "tfx.components", signal.SIGINT, *_in(folder, RUN))
    assert out.startswith("40 files, 2 classes")


# In this order, so that what comes before a stage is finished, and taken from TFX's cache.
@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("tfx.components.statistics_gen.executor:Executor.Do", signal.SIGTERM),  # TFX's own
        # The main thread waits in TensorFlow's C++ for a thread of a data set.
        ("image_pipeline.components.feeding.images:BatchMaker._do_all", signal.SIGINT),
        # In a stage of TFX's own Beam job.
        (_EVALUATE, signal.SIGINT),
    ],
)
def test_a_run_stops_in_every_component(folder, tmp_path, place, number):
    _interrupt(tmp_path, place, number, *_in(folder, RUN))


def test_a_run_goes_on_after_all_that(folder):
    assert call(_in(folder, RUN)) in (0, 3)
    summary = json.loads((folder / "out" / "summary.json").read_text())
    reused = {row["name"]: row["reused"] for row in summary["components"]}
    assert reused["ImageExampleGen"] and reused["StatisticsGen"] and reused["Trainer"]
    assert summary["ingest"]["written"] == 40
