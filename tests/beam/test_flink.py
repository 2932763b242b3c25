"""Flink is told which jobs to end."""

import contextlib
import http.server
import json
import threading

import pytest

from image_pipeline.components.beam.job import cancel_flink_jobs

pytestmark = pytest.mark.unit


@contextlib.contextmanager
def _flink(*jobs):
    """A job manager's REST interface, as far as it is asked; yields its address and the orders."""
    orders = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer({"jobs": jobs} if self.path == "/jobs/overview" else {})

        def do_PATCH(self):
            orders.append(self.path)
            self._answer({})

        def _answer(self, content):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", orders
        server.shutdown()
        thread.join()


JOBS = [
    {"jid": "a1", "name": "ours", "state": "RUNNING"},
    {"jid": "b2", "name": "theirs", "state": "RUNNING"},
    {"jid": "c3", "name": "ours", "state": "FINISHED"},
    {"jid": "d4", "name": "ours", "state": "RESTARTING"},
]


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_the_jobs_of_a_name_that_run_are_cancelled(scheme):
    with _flink(*JOBS) as (master, orders):
        assert cancel_flink_jobs(f"{scheme}{master}", "ours") == 2
    assert orders == ["/jobs/a1?mode=cancel", "/jobs/d4?mode=cancel"]


def test_a_flink_that_is_gone_is_an_error():
    with _flink() as (master, _):
        assert cancel_flink_jobs(master, "ours") == 0
    with pytest.raises(OSError, match="refused"):
        cancel_flink_jobs(master, "ours")
