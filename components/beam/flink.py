"""Cancels jobs on a Flink cluster, through its REST interface.

Beam's runner does not cancel what it has submitted to a cluster, not even when asked to: the job
keeps its slots, and waits for its workers, long after the process that submitted it is gone.
"""

import json
import urllib.parse
import urllib.request
from typing import Any

_ENDED = {"FINISHED", "FAILED", "CANCELED"}
_ANSWER_TIMEOUT_S = 5


def cancel_flink_jobs(master: str, name: str) -> int:
    """Cancels the running jobs with this name.

    Args:
      master: host and port of the job manager's REST interface, or its URL.
      name: the jobs' name.

    Returns:
      How many were cancelled.

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
