"""Jobs on a Flink cluster, by its REST interface.

Beam's runner does not cancel what it has sent to a cluster, not even when it is told to: the job
keeps its slots, and waits for its workers, when the process that sent it is long gone.
"""

import json
import urllib.parse
import urllib.request
from typing import Any

_ENDED = {"FINISHED", "FAILED", "CANCELED"}
_ANSWER_TIMEOUT_S = 5


def cancel_flink_jobs(master: str, name: str) -> int:
    """Cancels the jobs of a name that have not ended.

    Args:
      master: host and port of the job manager's REST interface, or its URL.
      name: name of the jobs.

    Returns:
      How many were told to end.

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
