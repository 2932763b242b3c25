"""Waits for a run on Kubeflow, and tells how its steps end."""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import find_line
from image_pipeline.kubeflow.client import RefusedError, explain_errors

if TYPE_CHECKING:
    import kfp

_ENDED = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED")
_WORDS = {"SUCCEEDED": "done", "SKIPPED": "skipped", "CANCELED": "stopped"}
_MOST_UNANSWERED = 10
"""Questions in a row without an answer: a server that restarts takes a minute or two."""


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
    told: dict[str, str] = {}
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
        tasks = _list_tasks(run, steps)
        for name, task in tasks.items():
            _tell_state(name, task.state, told, tell)
        if run.state in _ENDED:
            _check_ended(run, tasks)
            return
        time.sleep(wait_s)


def _list_tasks(run: Any, steps: Collection[str]) -> dict[str, Any]:
    """What the run says of each step; of several attempts, the last."""
    listed = (run.run_details.task_details if run.run_details else None) or []
    return {task.display_name: task for task in listed if task.display_name in steps}


def _tell_state(
    name: str, state: str | None, told: dict[str, str], tell: Callable[[str], None]
) -> None:
    if state in ("RUNNING", *_ENDED) and told.get(name) != state:
        told[name] = state or ""
        tell(f"{name}: {_WORDS.get(told[name], told[name].lower())}")


def _check_ended(run: Any, tasks: dict[str, Any]) -> None:
    if run.state == "SUCCEEDED":
        return
    failed = [_name_failure(name, task) for name, task in tasks.items() if task.state == "FAILED"]
    where = f" at {'; '.join(failed)}" if failed else ""
    said = find_line(run.error.message or "") if run.error else ""
    outcome = "was stopped" if run.state == "CANCELED" else "failed"
    raise UserError(
        f"The run {run.display_name!r} {outcome}{where}{f': {said}' if said else ''}; the steps' "
        "logs are at the link."
    )


def _name_failure(name: str, task: Any) -> str:
    said = find_line(task.error.message or "") if task.error else ""
    return f"{name} ({said})" if said else name
