import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.kubeflow.client import connect
from image_pipeline.kubeflow.submit import watch_run
from tests.kubeflow_compile.api_server import run_api_server

pytestmark = pytest.mark.e2e

STEPS = ("ImageExampleGen", "Trainer")


@pytest.fixture
def server():
    with run_api_server() as server:
        server.made["runs"] = [{"display_name": "monday"}]
        yield server


def _state(state, **steps):
    tasks = [
        {"display_name": name, **(said if isinstance(said, dict) else {"state": said})}
        for name, said in steps.items()
    ]
    return {"state": state, "run_details": {"task_details": tasks}}


def _watch(server):
    told = []
    client = connect(server.host, None)
    try:
        watch_run(client, server.host, "r", STEPS, told.append, wait_s=0.0)
    except UserError as error:
        return told, str(error)
    return told, None


def test_each_step_is_told_when_it_begins_and_ends(server):
    server.states = [
        {"state": "PENDING"},
        _state("RUNNING", ImageExampleGen="RUNNING", root="RUNNING"),
        _state("RUNNING", ImageExampleGen="SUCCEEDED", Trainer="RUNNING"),
        _state("SUCCEEDED", ImageExampleGen="SUCCEEDED", Trainer="SUCCEEDED"),
    ]
    assert _watch(server) == (
        [
            "ImageExampleGen: running",
            "ImageExampleGen: done",
            "Trainer: running",
            "Trainer: done",
        ],
        None,
    )


def test_a_failure_names_the_step_and_what_kubeflow_says(server):
    failed = {"state": "FAILED", "error": {"code": 2, "message": "exit code 1"}}
    server.states = [_state("FAILED", ImageExampleGen="SUCCEEDED", Trainer=failed)]
    told, error = _watch(server)
    assert told == ["ImageExampleGen: done", "Trainer: failed"]
    assert error == (
        "The run 'monday' failed at Trainer (exit code 1); the steps' logs are at the link."
    )


def test_a_run_that_was_stopped_is_said_to_be(server):
    server.states = [{"state": "CANCELED"}]
    assert _watch(server)[1] == ("The run 'monday' was stopped; the steps' logs are at the link.")


def test_a_server_that_restarts_is_asked_again(server):
    server.states = [{"state": "SUCCEEDED"}]
    answer, refused = server.answer, []

    def answer_later(method, url, body, headers):
        if "/runs/" in url and len(refused) < 3:
            refused.append(url)
            return 503, {"message": "restarting"}
        return answer(method, url, body, headers)

    server.answer = answer_later
    assert _watch(server) == ([], None) and len(refused) == 3


def test_a_server_that_refuses_every_other_question_is_asked_to_the_end(server):
    """Only questions in a row are counted."""
    server.states = [*[{"state": "RUNNING"}] * 12, {"state": "SUCCEEDED"}]
    answer, asked = server.answer, []

    def answer_every_other(method, url, body, headers):
        if "/runs/" in url:
            asked.append(url)
            if len(asked) % 2:
                return 503, {"message": "busy"}
        return answer(method, url, body, headers)

    server.answer = answer_every_other
    assert _watch(server) == ([], None) and len(asked) == 26


def test_a_server_that_answers_no_more_ends_the_waiting_alone(server):
    server.states = [{"state": "RUNNING"}]
    answer = server.answer
    server.answer = lambda method, url, body, headers: (
        (503, {"message": "gone"}) if "/runs/" in url else answer(method, url, body, headers)
    )
    _, error = _watch(server)
    assert "HTTP 503: gone (The run goes on; only the waiting ended.)" in error


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_ends_the_waiting_at_once(server, status):
    answer, asked = server.answer, []

    def refuse(method, url, body, headers):
        if "/runs/" in url:
            asked.append(url)
            return status, {"message": "no"}
        return answer(method, url, body, headers)

    server.answer = refuse
    _, error = _watch(server)
    assert f"HTTP {status}" in error and "the waiting ended" in error and len(asked) == 1
