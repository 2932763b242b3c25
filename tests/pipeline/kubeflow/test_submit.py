import dataclasses
import hashlib

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.kubeflow.client import connect
from image_pipeline.kubeflow.submit import (
    Schedule,
    Submission,
    read_parameters,
    read_schedule,
    submit_run,
    submit_schedule,
    watch_run,
)
from tests.kubeflow_compile.api_server import run_api_server

pytestmark = pytest.mark.e2e

CONTENT = b"pipelineInfo: {name: cats}\n"
VERSION = f"cats-{hashlib.sha256(CONTENT).hexdigest()[:12]}"


@pytest.fixture
def server():
    with run_api_server() as server:
        yield server


@pytest.fixture
def client(server):
    return connect(server.host, None)


@pytest.fixture
def submission(tmp_path):
    (tmp_path / "pipeline.yaml").write_bytes(CONTENT)
    return Submission(
        pipeline_path=str(tmp_path / "pipeline.yaml"),
        pipeline_name="cats",
        experiment="pets",
        run_name="monday",
        parameters={"training": "{epochs: 3}"},
        service_account="trainer",
        namespace=None,
    )


def test_a_run_is_of_the_uploaded_version(server, client, submission):
    run = submit_run(client, server.host, submission)
    assert run.run_id == "runs-0"
    assert server.uploads == {VERSION: CONTENT}
    assert [each["display_name"] for each in server.made["pipelines"]] == ["cats"]
    assert [each["display_name"] for each in server.made["experiments"]] == ["pets"]
    (made,) = server.made["runs"]
    assert made == {
        "display_name": "monday",
        "experiment_id": "experiments-0",
        "pipeline_version_reference": {
            "pipeline_id": "pipelines-0",
            "pipeline_version_id": "versions-0",
        },
        "runtime_config": {"parameters": {"training": "{epochs: 3}"}},
        "service_account": "trainer",
        "run_id": "runs-0",
    }


def test_the_same_content_is_uploaded_once_and_other_content_becomes_a_version(
    server, client, submission, tmp_path
):
    for _ in range(2):
        submit_run(client, server.host, submission)
    assert len(server.made["versions"]) == 1 and len(server.made["runs"]) == 2
    (tmp_path / "pipeline.yaml").write_bytes(CONTENT + b"# other\n")
    submit_run(client, server.host, submission)
    assert [each["pipeline_id"] for each in server.made["versions"]] == ["pipelines-0"] * 2
    assert len(server.made["pipelines"]) == len(server.made["experiments"]) == 1
    reference = server.made["runs"][2]["pipeline_version_reference"]
    assert reference["pipeline_version_id"] == "versions-1"


def test_a_pipeline_is_found_again_in_its_namespace_only(server, client, submission):
    submit_run(client, server.host, submission)
    for _ in range(2):
        submit_run(client, server.host, dataclasses.replace(submission, namespace="me"))
    assert [each.get("namespace") for each in server.made["pipelines"]] == [None, "me"]


@pytest.mark.parametrize(
    ("kind", "status", "message", "expected"),
    [
        ("runs", 400, "service account trainer not found", "start the run 'monday'.*HTTP 400: ser"),
        ("pipelines", 409, "The name cats already exists", "upload the pipeline 'cats'.*409: The"),
        ("experiments", 403, "PermissionDenied", r"refuses access \(HTTP 403: PermissionDenied\)"),
    ],
)
def test_what_the_server_refuses_is_a_sentence(
    server, client, submission, kind, status, message, expected
):
    server.refusals[kind] = status, message
    with pytest.raises(UserError, match=expected):
        submit_run(client, server.host, submission)
    assert "runs" not in server.made


def test_a_schedule_runs_one_at_a_time_and_makes_up_for_none(server, client, submission):
    schedule = Schedule(cron="0 0 3 * * *")
    made = submit_schedule(client, server.host, submission, schedule)
    assert made.recurring_run_id == "recurringruns-0"
    (sent,) = server.made["recurringruns"]
    assert sent["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * *"}}
    assert sent["max_concurrency"] == "1" or sent["max_concurrency"] == 1
    assert sent["no_catchup"] is True and sent["mode"] == "ENABLE"
    assert sent["runtime_config"]["parameters"] == {"training": "{epochs: 3}"}
    assert sent["service_account"] == "trainer" and "runs" not in server.made


def test_an_interval_is_passed_in_seconds(server, client, submission):
    submit_schedule(client, server.host, submission, Schedule(interval_s=21600))
    (sent,) = server.made["recurringruns"]
    assert int(sent["trigger"]["periodic_schedule"]["interval_second"]) == 21600


def test_a_second_schedule_of_the_same_name_is_refused(server, client, submission):
    submit_schedule(client, server.host, submission, Schedule(interval_s=60))
    with pytest.raises(UserError, match="There is a schedule 'monday' already"):
        submit_schedule(client, server.host, submission, Schedule(interval_s=60))
    assert len(server.made["recurringruns"]) == 1


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("30m", Schedule(interval_s=1800)),
        ("6h", Schedule(interval_s=21600)),
        ("1d", Schedule(interval_s=86400)),
        ("0 3 * * *", Schedule(cron="0 0 3 * * *")),
        ("30 0 3 * * MON-FRI", Schedule(cron="30 0 3 * * MON-FRI")),
    ],
)
def test_schedules(text, schedule):
    assert read_schedule(text) == schedule


@pytest.mark.parametrize("text", ["", "daily", "0h", "* * * *", "0 3 * * * * *", "0 3 * * ;"])
def test_what_is_no_schedule(text):
    with pytest.raises(UserError, match="is a cron expression such as"):
        read_schedule(text)


def test_parameters_are_checked_before_anything_is_started():
    given = ("training={epochs: 3}", "images=gs://a=b")
    assert read_parameters(given, load_config(None)) == {
        "training": "{epochs: 3}",
        "images": "gs://a=b",
    }
    with pytest.raises(UserError, match="did you mean training"):
        read_parameters(("trainin={epochs: 3}",), load_config(None))
    with pytest.raises(UserError, match=r"training\.epoch: unknown key"):
        read_parameters(("training={epoch: 3}",), load_config(None))
    with pytest.raises(UserError, match="needs the splits train and eval"):
        read_parameters(("ingest={splits: {train: 1}}",), load_config(None))


def test_where_ingests_output_is_reused_a_run_must_say_which_images_it_means():
    config = load_config(None, ["kubeflow.steps.ImageExampleGen.caching=true"])
    with pytest.raises(UserError, match="give --parameter images-fingerprint=TEXT"):
        read_parameters((), config)
    given = read_parameters(("images-fingerprint=monday",), config)
    assert given == {"images-fingerprint": "monday"}


STEPS = ("ImageExampleGen", "Trainer")


def _state(state, **steps):
    tasks = [
        {"display_name": name, **(said if isinstance(said, dict) else {"state": said})}
        for name, said in steps.items()
    ]
    return {"state": state, "run_details": {"task_details": tasks}}


def _watch(server):
    server.made["runs"] = [{"display_name": "monday"}]
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
        ["ImageExampleGen: running", "ImageExampleGen: done", "Trainer: running", "Trainer: done"],
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
