"""A job begins within a time, with workers that have this machine's code, or is cancelled.

So does what others run in a `with`.
"""

import os
import re

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner, PipelineState

from image_pipeline.components import files
from image_pipeline.components.beam import job as beam_job
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.beam.job import (
    JobPipeline,
    await_start,
    leave_sign,
    make_scratch,
    run_job,
)
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.beam

PORTABLE = ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK")


class _Job:
    """A runner's job, which is told to be cancelled; its states come one after the other."""

    def __init__(self, *states):
        self.states = list(states)
        self.cancelled = False

    @property
    def state(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def cancel(self):
        self.cancelled = True
        raise OSError("a runner may be gone")

    def wait_until_finish(self):
        raise KeyboardInterrupt


class _Runner(PipelineRunner):
    """Takes every job, and never runs it."""

    def __init__(self):
        super().__init__()
        self.job = _Job(PipelineState.RUNNING)

    def run_pipeline(self, pipeline, options):
        self.options = options
        return self.job


@pytest.fixture
def sign(tmp_path):
    return str(tmp_path / "shared" / "begun")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(beam_job, "_LOOK_EVERY_S", 0.01)


def test_a_job_that_no_worker_begins_is_cancelled(sign):
    job = _Job(PipelineState.RUNNING)
    with pytest.raises(UserError) as caught:
        await_start(job, sign, timeout_s=0.2)
    message = str(caught.value)
    assert message.startswith("No worker has started within 0.2 s, so the job was cancelled:")
    assert sign in message and "ModuleNotFoundError" in message
    assert "--start_timeout_s=SECONDS" in message


def test_a_worker_that_has_begun_ends_the_waiting(sign):
    leave_sign(sign)
    job = _Job(PipelineState.RUNNING)
    await_start(job, sign, timeout_s=0)


def test_a_job_that_has_ended_is_not_waited_for(sign):
    await_start(_Job(PipelineState.RUNNING, PipelineState.FAILED), sign, timeout_s=60)


def test_workers_with_other_code_are_refused(sign):
    with files.write_atomically(sign) as file:
        file.write(b"0123456789abcdef")
    job = _Job(PipelineState.RUNNING)
    with pytest.raises(UserError, match=r"a different version .*\(0123456789abcdef\) from this"):
        await_start(job, sign, timeout_s=60)


def _make(*flags):
    return beam.Pipeline(options=PipelineOptions([*flags]))


def _run_one(root, folder, function):
    with run_job(root, str(folder)):
        _ = root | beam.Create([str(folder / "seen")]) | beam.Map(function)


def _leave_trace(path):
    with files.write_atomically(path) as file:
        file.write(b"")


@pytest.mark.parametrize("flags", [PORTABLE, LOCAL_BEAM_ARGS], ids=["portable", "local"])
def test_a_job_runs_to_its_end(flags, tmp_path):
    _run_one(_make(*flags), tmp_path, _leave_trace)
    assert (tmp_path / "seen").exists()
    assert len(list(tmp_path.glob("begun-*"))) == (flags == PORTABLE)


def test_the_sign_of_an_earlier_run_does_not_count(tmp_path):
    _run_one(_make(*PORTABLE), tmp_path, _leave_trace)
    with pytest.raises(UserError, match="No worker has started"):
        _run_one(_make_stuck(_Runner(), "--start_timeout_s=0.1"), tmp_path, _leave_trace)


def test_a_job_that_is_queued_may_wait(sign):
    job = _Job(*[PipelineState.PENDING] * 9, PipelineState.DONE)
    await_start(job, sign, timeout_s=0)
    with pytest.raises(UserError, match="No worker has started"):
        await_start(_Job(*[PipelineState.PENDING] * 9, PipelineState.RUNNING), sign, timeout_s=0)


def test_the_limit_is_a_beam_flag(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(beam_job, "await_start", lambda *given: asked.append(given[2]))
    _run_one(_make(*PORTABLE), tmp_path, _leave_trace)
    _run_one(_make(*PORTABLE, "--start_timeout_s=7.5"), tmp_path, _leave_trace)
    assert asked == [600, 7.5]


def _refuse(path):
    raise UserError("the rule, the value, the way out")


def _lack(path):
    import nowhere_to_be_found  # noqa: F401


@pytest.mark.parametrize("flags", [PORTABLE, LOCAL_BEAM_ARGS], ids=["portable", "local"])
def test_what_a_worker_says_to_a_person_arrives(flags, tmp_path):
    with pytest.raises(UserError, match=r"^the rule, the value, the way out$"):
        _run_one(_make(*flags), tmp_path, _refuse)


def test_a_module_that_a_worker_lacks_is_named(tmp_path):
    with pytest.raises(UserError) as caught:
        _run_one(_make(*PORTABLE), tmp_path, _lack)
    assert str(caught.value) == (
        "A worker's Python has no module 'nowhere_to_be_found'; install the same as here wherever "
        "the workers run: this project, and what your own functions are in."
    )
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):  # Nothing is elsewhere.
        _run_one(_make(*LOCAL_BEAM_ARGS), tmp_path, _lack)


def _make_stuck(runner, *flags):
    return beam.Pipeline(runner, PipelineOptions([*flags]))


def test_a_job_that_is_given_up_is_cancelled(tmp_path):
    runner = _Runner()
    with pytest.raises(UserError, match=r"No worker has started within 0\.1 s"):
        _run_one(_make_stuck(runner, "--start_timeout_s=0.1"), tmp_path, _leave_trace)
    assert runner.job.cancelled


def test_a_person_who_interrupts_a_job_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr(beam_job, "await_start", lambda *_: None)
    runner = _Runner()
    with pytest.raises(KeyboardInterrupt):
        _run_one(_make_stuck(runner), tmp_path, _leave_trace)
    assert runner.job.cancelled


def test_on_a_flink_cluster_the_job_has_a_name_and_is_cancelled_by_it(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(beam_job, "cancel_flink_jobs", lambda *given: asked.append(given))
    runner = _Runner()
    flags = ["--start_timeout_s=0.1", "--flink_master=http://flink:8081"]
    for more in ([], ["--job_name=mine"]):
        with pytest.raises(UserError, match="No worker has started"):
            _run_one(_make_stuck(runner, *flags, *more), tmp_path, _leave_trace)
    (_, name), (master, given_name) = asked
    assert master == "http://flink:8081"
    assert re.fullmatch(r"image-pipeline-[0-9a-f]{8}", name)
    assert re.fullmatch(r"mine-[0-9a-f]{8}", given_name)
    assert runner.options.get_all_options()["job_name"] == given_name
    assert not runner.job.cancelled  # Beam's runner waits, and cancels nothing.


def test_scratch_is_where_all_workers_see_it(tmp_path):
    (tmp_path / ".scratch").mkdir()
    (tmp_path / ".scratch" / "of-a-killed-run").write_text("")
    with make_scratch(_make(*PORTABLE), str(tmp_path)) as scratch:
        assert scratch == str(tmp_path / ".scratch") and not os.path.exists(scratch)
        _leave_trace(f"{scratch}/file")
    with make_scratch(_make(*LOCAL_BEAM_ARGS), str(tmp_path)) as scratch:
        assert os.path.isdir(scratch) and not scratch.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == [] and not os.path.exists(scratch)


def test_an_error_in_the_block_starts_nothing(tmp_path):
    with pytest.raises(KeyError), run_job(_make(*PORTABLE), str(tmp_path)):
        raise KeyError("before the job was sent")
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_no_worker_begins_is_cancelled(tmp_path):
    runner = _Runner()
    options = PipelineOptions(["--start_timeout_s=0.1"])
    with (
        pytest.raises(UserError, match=r"No worker has started within 0\.1 s"),
        JobPipeline(runner, options, str(tmp_path)) as root,
    ):
        _ = root | beam.Create([1])
    assert runner.job.cancelled


@pytest.mark.parametrize("flags", [PORTABLE, LOCAL_BEAM_ARGS], ids=["portable", "local"])
def test_a_block_runs_to_its_end(flags, tmp_path):
    with JobPipeline(None, PipelineOptions([*flags]), str(tmp_path)) as root:
        _ = root | beam.Create(["a"]) | beam.io.WriteToText(f"{tmp_path}/seen", num_shards=1)
    (seen,) = tmp_path.glob("seen*")
    assert seen.read_text() == "a\n"
    assert len(list(tmp_path.glob("begun-*"))) == (flags == PORTABLE)


def test_an_error_in_a_block_starts_nothing(tmp_path):
    with pytest.raises(KeyError), JobPipeline(_Runner(), PipelineOptions([]), str(tmp_path)):
        raise KeyError
