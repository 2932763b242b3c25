"""What others run in a `with` is run as our own jobs are."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner, PipelineState

from image_pipeline.components.beam import job as beam_job
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.beam.job import JobPipeline
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.beam

PORTABLE = ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK")


class _Stuck(PipelineRunner):
    """Takes every job, and never runs it."""

    state = PipelineState.RUNNING
    cancelled = False

    def run_pipeline(self, pipeline, options):
        return self

    def cancel(self):
        self.cancelled = True

    def wait_until_finish(self):
        raise AssertionError("waited for, without a limit")


def test_a_job_that_no_worker_begins_is_cancelled(tmp_path, monkeypatch):
    monkeypatch.setattr(beam_job, "_LOOK_EVERY_S", 0.01)
    runner = _Stuck()
    options = PipelineOptions(["--start_timeout_s=0.1"])
    with (
        pytest.raises(UserError, match=r"No worker has started within 0\.1 s"),
        JobPipeline(runner, options, str(tmp_path)) as root,
    ):
        _ = root | beam.Create([1])
    assert runner.cancelled


@pytest.mark.parametrize("flags", [PORTABLE, LOCAL_BEAM_ARGS], ids=["portable", "local"])
def test_a_job_runs_to_its_end(flags, tmp_path):
    with JobPipeline(None, PipelineOptions([*flags]), str(tmp_path)) as root:
        _ = root | beam.Create(["a"]) | beam.io.WriteToText(f"{tmp_path}/seen", num_shards=1)
    (seen,) = tmp_path.glob("seen*")
    assert seen.read_text() == "a\n"
    assert len(list(tmp_path.glob("begun-*"))) == (flags == PORTABLE)


def test_an_error_in_the_block_starts_nothing(tmp_path):
    with pytest.raises(KeyError), JobPipeline(_Stuck(), PipelineOptions([]), str(tmp_path)):
        raise KeyError
