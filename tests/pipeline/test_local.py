"""What a run on this machine tells while it runs."""

import pytest

from components import progress
from components.progress import Progress
from pipeline import local
from pipeline.executions import ComponentRun

pytestmark = pytest.mark.unit


def _run(name, **outputs):
    return ComponentRun(name, 1.0, 1.0, False, outputs)


@pytest.fixture(autouse=True)
def nothing_begun():
    progress.end()
    yield
    progress.end()


def test_evaluation_is_of_the_eval_records_of_every_span(monkeypatch):
    records = {"first": 3, "second": 4}
    monkeypatch.setattr(
        local, "read_manifest", lambda folder: {"splits": {"eval": {"records": records[folder]}}}
    )
    runs = [
        _run("ImageExampleGen 1", examples="first"),
        _run("ImageExampleGen", examples="second"),
        _run("Trainer", model="model"),
    ]
    local._begin_evaluation(runs)
    assert progress.look() == Progress("records", 7)


def test_a_run_that_took_its_data_from_an_earlier_one_shows_the_time_only():
    local._begin_evaluation([_run("Trainer", model="model")])
    assert progress.look() is None
