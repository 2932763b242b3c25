"""Uploads a compiled pipeline to Kubeflow, starts a run of it, or a schedule, and waits for it."""

import dataclasses
import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import find_line, suggest
from image_pipeline.config import PipelineConfig, check_run
from image_pipeline.kubeflow.client import RefusedError, explain_errors
from image_pipeline.kubeflow.parameters import FINGERPRINT, GROUPS, NAMES, override_config

if TYPE_CHECKING:
    import kfp

_SECONDS = {"m": 60, "h": 3600, "d": 86400}
_ENDED = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED")
_WORDS = {"SUCCEEDED": "done", "SKIPPED": "skipped", "CANCELED": "stopped"}
_MOST_UNANSWERED = 10
"""Questions in a row without an answer: a server that restarts takes a minute or two."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """What is to be run.

    Attributes:
      pipeline_path: the compiled pipeline, .yaml.
      pipeline_name: its name; uploads become versions of it.
      experiment: the name of the experiment that runs are listed in.
      run_name: of the run, or of the schedule.
      parameters: of the run, as texts.
      service_account: of its pods; None for Kubeflow's default.
      namespace: see `client.connect`.
    """

    pipeline_path: str
    pipeline_name: str
    experiment: str
    run_name: str
    parameters: Mapping[str, str]
    service_account: str | None
    namespace: str | None


@dataclasses.dataclass(frozen=True)
class Schedule:
    """When runs start: one of the two.

    Attributes:
      cron: six fields, seconds first, as Kubeflow has it.
      interval_s: seconds from one start to the next.
    """

    cron: str | None = None
    interval_s: int | None = None


def read_schedule(text: str) -> Schedule:
    """Reads `0 3 * * *` (minutes first, or seconds first in six fields), or `30m`, `6h`, `1d`.

    Raises:
      UserError: if it is neither.
    """
    if found := re.fullmatch(r"([1-9]\d*)([mhd])", text.strip()):
        return Schedule(interval_s=int(found[1]) * _SECONDS[found[2]])
    fields = text.split()
    if len(fields) in (5, 6) and all(re.fullmatch(r"[\w*?,/#-]+", field) for field in fields):
        return Schedule(cron=" ".join(["0"] * (6 - len(fields)) + fields))
    raise UserError(
        f'--recurring is a cron expression such as "0 3 * * *", or an interval such as 6h or 1d, '
        f"got {text!r}."
    )


def read_parameters(given: tuple[str, ...], config: PipelineConfig) -> dict[str, str]:
    """Reads `NAME=VALUE`, and checks before anything is started what a step would refuse hours on.

    Raises:
      UserError: if there is no such parameter, or its value is not valid.
    """
    parameters = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or name not in NAMES:
            raise UserError(
                f"--parameter is written NAME=VALUE, got {each!r}; {suggest(name, NAMES)}"
                f"the names are {', '.join(NAMES)}."
            )
        parameters[name] = value
    changed = override_config(config, {n: v for n, v in parameters.items() if n in GROUPS})
    check_run(changed)
    if config.kubeflow.of_step("ImageExampleGen").caching and not parameters.get(FINGERPRINT):
        raise UserError(
            f"kubeflow sets caching for ImageExampleGen, so each run must say which images it "
            f"means; give --parameter {FINGERPRINT}=TEXT, new when the images are."
        )
    return parameters


def submit_run(client: "kfp.Client", host: str | None, submission: Submission) -> Any:
    """Uploads the pipeline and starts a run of it.

    Returns:
      kfp's `V2beta1Run`.

    Raises:
      UserError: if the server refuses; nothing has been started then.
    """
    target = _prepare(client, host, submission)
    with explain_errors(host, f"start the run {submission.run_name!r}"):
        return client.run_pipeline(job_name=submission.run_name, **target)


def submit_schedule(
    client: "kfp.Client", host: str | None, submission: Submission, schedule: Schedule
) -> Any:
    """Uploads the pipeline and has Kubeflow start runs of it, one at a time.

    Each takes the span that is the latest when it runs, so those that were missed are not made up
    for: they would all take the same one.

    Returns:
      kfp's `V2beta1RecurringRun`.

    Raises:
      UserError: if there is a schedule of that name, or the server refuses.
    """
    name, namespace = submission.run_name, submission.namespace
    with explain_errors(host, "list the schedules"):
        same = client.list_recurring_runs(filter=_equals(name), namespace=namespace)
    if same.recurring_runs:
        raise UserError(
            f"There is a schedule {name!r} already, which would go on beside this one; delete it "
            "in Kubeflow's pages, or give another --run-name."
        )
    target = _prepare(client, host, submission)
    with explain_errors(host, f"make the schedule {name!r}"):
        return client.create_recurring_run(
            job_name=name,
            cron_expression=schedule.cron,
            interval_second=schedule.interval_s,
            max_concurrency=1,
            no_catchup=True,
            **target,
        )


def _prepare(client: "kfp.Client", host: str | None, submission: Submission) -> dict[str, Any]:
    """Uploads, and gives what runs and schedules have in common, as kfp calls it."""
    with explain_errors(host, f"upload the pipeline {submission.pipeline_name!r}"):
        pipeline_id, version_id = upload(client, submission)
    with explain_errors(host, f"use the experiment {submission.experiment!r}"):
        experiment = client.create_experiment(submission.experiment, namespace=submission.namespace)
    return {
        "experiment_id": experiment.experiment_id,
        "pipeline_id": pipeline_id,
        "version_id": version_id,
        "params": dict(submission.parameters),
        "service_account": submission.service_account,
    }


def upload(client: "kfp.Client", submission: Submission) -> tuple[str, str]:
    """Uploads the pipeline unless its content is there: the ids of it and of its version."""
    path, name = submission.pipeline_path, submission.pipeline_name
    version = f"{name}-{hashlib.sha256(files.read_file(path)).hexdigest()[:12]}"
    pipeline_id = _find_pipeline(client, name, submission.namespace)
    if pipeline_id is None:
        wanted = client.api_models.V2beta1Pipeline(
            display_name=name, namespace=submission.namespace
        )
        pipeline_id = client.pipelines.pipeline_service_create_pipeline(wanted).pipeline_id
    same = client.list_pipeline_versions(pipeline_id, filter=_equals(version)).pipeline_versions
    if same:
        return pipeline_id, same[0].pipeline_version_id
    made = client.upload_pipeline_version(path, version, pipeline_id=pipeline_id)
    return pipeline_id, made.pipeline_version_id


def _find_pipeline(client: "kfp.Client", name: str, namespace: str | None) -> str | None:
    """The pipeline's id. `get_pipeline_id` of kfp's asks in no namespace: others are not found."""
    found = client.list_pipelines(filter=_equals(name), namespace=namespace).pipelines
    return found[0].pipeline_id if found else None


def _equals(name: str) -> str:
    """kfp's filter for what is called so."""
    predicate = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
    return json.dumps({"predicates": [predicate]})


def watch_run(
    client: "kfp.Client",
    host: str | None,
    run_id: str,
    steps: Collection[str],
    tell: Callable[[str], None],
    wait_s: float = 10.0,
) -> None:
    """Returns when the run has succeeded.

    Args:
      client: the connection.
      host: see `client.find_host`.
      run_id: Kubeflow's id of it.
      steps: the pipeline's; Kubeflow lists pods of its own beside them.
      tell: takes a line for each step that begins or ends.
      wait_s: seconds between questions.

    Raises:
      UserError: if it failed or was stopped; it names the steps. Or if the server answers no more.
    """
    shown: dict[str, str] = {}
    unanswered = 0
    while True:
        try:
            with explain_errors(host, f"ask for the run {run_id}"):
                run = client.get_run(run_id)
            unanswered = 0
        except UserError as error:
            unanswered += 1
            if unanswered == _MOST_UNANSWERED or isinstance(error, RefusedError):
                raise UserError(f"{error} (The run goes on; only the waiting ended.)") from error
            time.sleep(wait_s)
            continue
        listed = (run.run_details.task_details if run.run_details else None) or []
        # Of several attempts, the last.
        tasks = {task.display_name: task for task in listed if task.display_name in steps}
        for name, task in tasks.items():
            if task.state in ("RUNNING", *_ENDED) and shown.get(name) != task.state:
                shown[name] = task.state
                tell(f"{name}: {_WORDS.get(task.state, task.state.lower())}")
        if run.state in _ENDED:
            break
        time.sleep(wait_s)
    if run.state == "SUCCEEDED":
        return
    failed = []
    for name, task in tasks.items():
        if task.state == "FAILED":
            why = find_line(task.error.message or "") if task.error else ""
            failed.append(f"{name} ({why})" if why else name)
    where = f" at {'; '.join(failed)}" if failed else ""
    why = find_line(run.error.message or "") if run.error else ""
    outcome = "was stopped" if run.state == "CANCELED" else "failed"
    raise UserError(
        f"The run {run.display_name!r} {outcome}{where}{f': {why}' if why else ''}; the steps' "
        "logs are at the link."
    )
