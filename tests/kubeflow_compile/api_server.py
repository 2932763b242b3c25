"""A small stand-in for Kubeflow Pipelines' API server (v2beta1), which notes what it is asked.

Its paths and messages are those of `kfp_server_api`, which is generated from Kubeflow's own
definition of them. It starts nothing: a run is what the test says it is.
"""

import contextlib
import dataclasses
import email
import email.policy
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

_API = "/apis/v2beta1"
# The name of each kind of thing's id, by the end of its path.
_IDS = {
    "pipelines": "pipeline_id",
    "versions": "pipeline_version_id",
    "experiments": "experiment_id",
    "runs": "run_id",
    "recurringruns": "recurring_run_id",
}
_LISTS = {"versions": "pipeline_versions", "recurringruns": "recurringRuns"}


@dataclasses.dataclass
class ApiServer:
    """What the server holds, and how it answers.

    Attributes:
      host: its address.
      token: what a client must give; None for anything.
      refusals: by a kind of thing, the status and the message when one is to be made.
      page: a page of HTML that is the answer to everything.
      made: by kind, all that was made, as it was sent.
      uploads: the files, by their versions' names.
      states: what a run says of itself, one answer after the other; the last one stays.
      asked: methods and paths.
    """

    host: str = ""
    token: str | None = None
    refusals: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    page: str | None = None
    made: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    uploads: dict[str, bytes] = dataclasses.field(default_factory=dict)
    states: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def answer(self, method: str, url: str, body: bytes, headers: Any) -> tuple[int, Any]:
        """A request's status and answer."""
        parts = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(parts.query))
        path = parts.path.removeprefix(_API).strip("/")
        self.asked.append((method, path))
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"error": "Unauthenticated", "message": "Unauthenticated: no token"}
        if path == "healthz":
            return 200, {"multi_user": False}
        if path == "pipelines/upload_version":
            return 200, self._upload(query, body, headers)
        kind = next(each for each in reversed(path.split("/")) if each in _IDS)
        if method == "POST":
            return self._make(kind, json.loads(body))
        if path.startswith("runs/"):
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return 200, {"run_id": path.partition("/")[2], **self.made["runs"][-1], **state}
        found = self._find(kind, query.get("filter"))
        if kind == "pipelines":  # Those of one namespace, or else of none.
            found = [each for each in found if each.get("namespace") == query.get("namespace")]
        return 200, {_LISTS.get(kind, kind): found}

    def _make(self, kind: str, sent: dict[str, Any]) -> tuple[int, Any]:
        if kind in self.refusals:
            status, message = self.refusals[kind]
            return status, {"error": message, "message": message, "code": 3}
        there = self.made.setdefault(kind, [])
        there.append({**sent, _IDS[kind]: f"{kind}-{len(there)}"})
        return 200, there[-1]

    def _upload(self, query: dict[str, str], body: bytes, headers: Any) -> Any:
        head = f"content-type: {headers['content-type']}\n\n".encode()
        (part,) = email.message_from_bytes(head + body, policy=email.policy.HTTP).iter_parts()
        self.uploads[query["name"]] = part.get_payload(decode=True)
        version = {"display_name": query["name"], "pipeline_id": query["pipelineid"]}
        return self._make("versions", version)[1]

    def _find(self, kind: str, wanted: str | None) -> list[dict[str, Any]]:
        there = self.made.get(kind, [])
        if not wanted:
            return there
        (predicate,) = json.loads(wanted)["predicates"]
        assert predicate["operation"] in (1, "EQUALS") and predicate["key"] == "display_name"
        return [each for each in there if each["display_name"] == predicate["stringValue"]]


@contextlib.contextmanager
def run_api_server() -> Iterator[ApiServer]:
    """Runs a server on a port of its own while the block does."""
    state = ApiServer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, answer = state.answer(self.command, self.path, body, self.headers)
            content, kind = json.dumps(answer).encode(), "application/json"
            if state.page is not None:
                status, content, kind = 200, state.page.encode(), "text/html"
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *arguments: Any) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.host = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
