"""Progress of Beam jobs whose workers are elsewhere."""

import time
import types

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components import progress
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.beam.counters import show_counters, watch_counters
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.progress import Progress
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.tiers import wide

pytestmark = pytest.mark.beam

PORTABLE = ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK")


class _Result:
    """Tells of what a runner has counted; like Beam's portable one, it keeps its first answer."""

    def __init__(self, *counts):
        self.counts = counts
        self._metrics = None

    def metrics(self):
        if self._metrics is None:
            counters = [
                types.SimpleNamespace(
                    key=types.SimpleNamespace(metric=types.SimpleNamespace(name=name)), result=count
                )
                for name, count in self.counts
            ]
            self._metrics = types.SimpleNamespace(query=lambda _: {"counters": counters})
        return self._metrics


@pytest.fixture(autouse=True)
def nothing_begun():
    progress.end()
    yield
    progress.end()


def test_what_a_job_has_counted_is_shown():
    result = _Result(("images_listed", 9), ("images_done", 4), ("images_quarantined", 1))
    assert show_counters(result)
    assert progress.look() == Progress("images", 9, done=4, bad=1)
    # Several steps count under one name, and a runner may know nothing of some.
    result.counts = (("images_listed", 9), ("images_done", 4), ("images_done", 3))
    result.counts += (("images_quarantined", None),)
    assert show_counters(result)
    assert progress.look() == Progress("images", 9, done=7, bad=1)


def test_the_total_may_be_known_here_and_nothing_goes_back():
    progress.begin("images", 8)
    progress.advance(5)
    show_counters(_Result(("images_done", 3)))
    assert progress.look() == Progress("images", 8, done=5)
    show_counters(_Result(("images_done", 6)))
    assert progress.look() == Progress("images", 8, done=6)


def test_without_a_result_or_a_total_nothing_is_shown():
    assert show_counters(None)
    assert show_counters(_Result())
    assert progress.look() is None


def test_a_job_that_counts_nothing_leaves_what_is_shown():
    progress.begin("records", 8)
    assert show_counters(_Result())
    assert progress.look() == Progress("records", 8)


def test_a_runner_without_metrics_is_not_asked_again():
    class Failing:
        def metrics(self):
            raise NotImplementedError

    assert not show_counters(Failing())
    assert progress.look() is None


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_counters_are_read_while_the_job_runs():
    root = types.SimpleNamespace()  # Beam's pipeline has no result before it runs.
    with watch_counters(root, every_s=0.01):
        time.sleep(0.05)
        root.result = _Result(("images_listed", 9))
        for done in (2, 5):
            root.result.counts = (("images_listed", 9), ("images_done", done))
            until_s = time.monotonic() + 120
            while progress.look() != Progress("images", 9, done) and time.monotonic() < until_s:
                time.sleep(0.01)
            assert progress.look() == Progress("images", 9, done)
        root.result.counts = (("images_listed", 9), ("images_done", 9))
    assert progress.look() == Progress("images", 9, 9)


@pytest.fixture
def worked_elsewhere(monkeypatch):
    """Workers count in the memory of their own process, which is not this one."""
    monkeypatch.setattr(progress, "advance", lambda *_, **__: None)


@pytest.mark.parametrize("beam_args", [wide(PORTABLE), LOCAL_BEAM_ARGS], ids=["portable", "local"])
def test_ingest_and_analysis_count_by_beam(tmp_path, beam_args, worked_elsewhere, monkeypatch):
    images = write_folder(tmp_path / "images", per_class=5)
    (images / "cat" / "bad.png").write_text("text")
    options = IngestOptions(max_bad_fraction=0.5, splits={"train": 1.0})
    folder = str(tmp_path / "out")

    def make_pipeline():
        return beam.Pipeline(options=PipelineOptions(list(beam_args)))

    with monkeypatch.context() as patch:
        patch.setattr(progress, "begin", lambda *_, **__: None)
        run_ingest(str(images), folder, str(tmp_path / "work"), options, make_pipeline)
    assert progress.look() == Progress("images", 11, done=11, bad=1)
    view = ViewOptions(height_px=8, width_px=8)
    run_analysis(folder, str(tmp_path / "graph"), view, TransformOptions(), make_pipeline)
    assert progress.look() == Progress("images", 10, done=10)
