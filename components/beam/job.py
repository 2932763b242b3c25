"""A Beam job from its pipeline to its end: its progress, a limit for its start, and its errors.

A runner may wait forever for workers that never come. Flink does if a pool's Python lacks Beam, and
it restarts a job over and over if its workers lack this project. So a branch of each job that runs
elsewhere writes a sign, the version of the worker's code, to a folder that all machines see. If
there is none in time, the job is cancelled, and the error says why.
"""

import contextlib
import json
import re
import tempfile
import time
import types
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from image_pipeline.components import files
from image_pipeline.components.beam.counters import watch_counters
from image_pipeline.components.beam.flags import JobOptions
from image_pipeline.components.errors import UserError, find_user_error, raise_interrupt
from image_pipeline.components.function_version import ROOMS, code_version
from image_pipeline.components.threads import call_within

_LOOK_EVERY_S = 0.5
# For a runner to cancel a job.
_CANCEL_TIMEOUT_S = 30
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


@contextlib.contextmanager
def run_job(root: beam.Pipeline, shared_dir: str) -> Iterator[beam.Pipeline]:
    """Runs the pipeline that the block builds, and waits for its end.

    Args:
      root: the empty pipeline.
      shared_dir: a folder or URI that this machine and all workers see.

    Yields:
      The empty pipeline.

    Raises:
      UserError: what a worker raised; or if no worker started within `--start_timeout_s`, or one
        has other code than this machine, or lacks a module.
    """
    sign = files.join(shared_dir, f"begun-{uuid.uuid4().hex}")
    if not runs_here(root):  # First of all: some runners run one branch after the other.
        _ = root | "Sign" >> beam.Create([sign]) | "LeaveSign" >> beam.Map(leave_sign)
    try:
        with watch_counters(root):
            yield root
            if runs_here(root):
                root.result = root.run()
                return
            if _is_flink_cluster(root):  # It is cancelled by name, which no other job may have.
                named = root.options.view_as(GoogleCloudOptions)
                named.job_name = f"{named.job_name or 'image-pipeline'}-{uuid.uuid4().hex[:8]}"
            try:
                root.result = root.run()
                await_start(root.result, sign, root.options.view_as(JobOptions).start_timeout_s)
                root.result.wait_until_finish()
            except BaseException:
                _cancel(root)
                raise
    except Exception as error:
        raise_interrupt(error)
        known = find_user_error(error)
        # Of a module that workers elsewhere lack, only the text of their error comes back.
        missing = [] if runs_here(root) else _MISSING_MODULE.findall(str(error))
        if known is None and missing:
            known = UserError(
                f"A worker's Python has no module {missing[-1]!r}; install the same as here "
                "wherever the workers run: this project, and what your own functions are in."
            )
        if known is None:
            raise
        raise known from error


@contextlib.contextmanager
def make_scratch(root: beam.Pipeline, shared_dir: str) -> Iterator[str]:
    """A folder that all workers see, for files needed only while the job runs.

    Args:
      root: the pipeline.
      shared_dir: a folder or URI that this machine and all workers see. The scratch folder is in it
        only if workers are elsewhere: the local disk is faster than an object store.
    """
    if runs_here(root):
        with tempfile.TemporaryDirectory() as scratch:
            yield scratch
        return
    scratch = files.join(shared_dir, ".scratch")
    files.delete_tree(scratch)  # Left by a run that was killed.
    try:
        yield scratch
    finally:
        with contextlib.suppress(UserError, OSError):  # The next run deletes what is left.
            files.delete_tree(scratch)


def leave_sign(sign: str) -> None:
    """Writes the version of this worker's code to the file."""
    files.write_file(sign, code_version(*ROOMS).encode())


def await_start(result: PipelineResult, sign: str, timeout_s: float) -> None:
    """Waits until a worker has left its sign, or the job has ended.

    Raises:
      UserError: if there is no sign in time, or if the worker has other code than this machine.
    """
    until_s = time.monotonic() + timeout_s
    while not files.is_file(sign):
        state = result.state
        if PipelineState.is_terminal(state):
            return
        if state == PipelineState.PENDING:  # Queued, for hours if the user asked for that.
            until_s = time.monotonic() + timeout_s
        elif time.monotonic() > until_s:
            raise UserError(
                f"No worker has started within {timeout_s:g} s, so the job was cancelled: its "
                "workers cannot start, are busy with other jobs, or cannot write to "
                f"{sign}, or not where this machine sees it. Most often their Python lacks Beam or "
                "this project: the log of the pool of workers or the runner's page says "
                "ModuleNotFoundError then. Give a busy cluster longer: --start_timeout_s=SECONDS."
            )
        time.sleep(_LOOK_EVERY_S)
    check_same_code(code_version(*ROOMS), files.read_file(sign).decode())


def check_same_code(here: str, there: str) -> None:
    """Checks the version of the workers' code against that of the machine that described the job.

    Raises:
      UserError: if they differ.
    """
    if here != there:
        raise UserError(
            f"The workers have a different version of this project ({there}) from this machine "
            f"({here}), and could write other bytes; install the same one in both places."
        )


def runs_here(root: beam.Pipeline) -> bool:
    """Tells whether the job's workers are in this process."""
    return isinstance(root.runner, FnApiRunner)


def _is_flink_cluster(root: beam.Pipeline) -> bool:
    """Whether the job goes to a Flink at an address; `[local]` and the like start one."""
    master = root.options.view_as(FlinkRunnerOptions).flink_master
    return not master.startswith("[")


def _cancel(root: beam.Pipeline) -> None:
    """Ignores all errors: the one being raised says more."""
    with contextlib.suppress(Exception):
        if _is_flink_cluster(root):
            name = root.options.view_as(GoogleCloudOptions).job_name
            cancel_flink_jobs(root.options.view_as(FlinkRunnerOptions).flink_master, name)
        else:
            call_within(_CANCEL_TIMEOUT_S, root.result.cancel)


_ENDED = {"FINISHED", "FAILED", "CANCELED"}
_ANSWER_TIMEOUT_S = 5


def cancel_flink_jobs(master: str, name: str) -> int:
    """Cancels the running jobs with this name, by a Flink cluster's REST interface; says how many.

    Beam's runner does not cancel what it has submitted to a cluster, not even when asked to: the
    job keeps its slots, and waits for its workers, long after the process that submitted it is
    gone.

    Args:
      master: host and port of the job manager's REST interface, or its URL.
      name: the jobs' name.

    Raises:
      OSError: if the job manager does not answer.
    """
    url = master if "://" in master else f"http://{master}"
    jobs = _ask(f"{url}/jobs/overview")["jobs"]
    running = [job["jid"] for job in jobs if job["name"] == name and job["state"] not in _ENDED]
    for job_id in running:
        _ask(f"{url}/jobs/{urllib.parse.quote(job_id)}?mode=cancel", method="PATCH")
    return len(running)


def _ask(url: str, method: str = "GET") -> Any:
    request = urllib.request.Request(url, method=method)
    with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S) as answer:
        return json.load(answer)


class JobPipeline(beam.Pipeline):
    """Its `with` is `run_job`: start limit, check of the workers' version, cancellation, errors."""

    def __init__(
        self, runner: PipelineRunner | str | None, options: PipelineOptions, shared_dir: str
    ):
        """Makes an empty pipeline.

        Args:
          runner: the runner; None takes the one that the options name.
          shared_dir: a folder or URI that this machine and all workers see.
        """
        super().__init__(runner=runner, options=options)
        self._job = run_job(self, shared_dir)

    def __enter__(self) -> beam.Pipeline:
        """Begins the job; returns the pipeline, for the block to fill."""
        return self._job.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Runs the job to its end, unless the block has failed."""
        self._job.__exit__(kind, error, trace)
