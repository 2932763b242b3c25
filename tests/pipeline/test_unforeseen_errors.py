"""An error that nobody foresaw, at every stage: exit code 4, its name and message, and the log."""

import importlib
import re
import sys

import pytest

from image_pipeline.cli import call
from tests.drawings import write_folder
from tests.tiers import wide

pytestmark = pytest.mark.e2e

_SMALL = ("--set", "view.height_px=8", "--set", "view.width_px=8", "--set", "training.epochs=1")
INGEST = ("ingest", "--images", "images", "--output", "data")
ANALYZE = ("analyze", "data", "--output", "graph", *_SMALL[:4])
RUN = ("run", "--images", "images", "--output", "out", *_SMALL)
REPORT = ("report", "data", "--output", "report.html")
DOCTOR = ("doctor", "data", "--seconds", "0.01", *_SMALL)
PREVIEW = ("preview", "data", "--output", "preview.png")
PLAN = ("plan", "--images", "images")
COMPILE = ("compile", "--runner=dataflow", "--images=i", "--output=o", "--template=t")
COMPILE += ("--", "--project=p", "--region=r", "--temp_location=.", "--no_auth")
COMPILE += ("--dataflow_endpoint=http://localhost:9",)
COMPILE += ("--sdk_container_image=i",)

# Each command at one place of its own; ingest and analyze also in their Beam jobs.
STAGES = [
    (INGEST, "image_pipeline.run.preflight:survey_images", RuntimeError),
    (INGEST, "image_pipeline.components.ingest.run:prepare_chunk", OSError),
    (INGEST, "image_pipeline.components.ingest.run:write_manifest", RuntimeError),
    (ANALYZE, "image_pipeline.components.transform.record_batches:read_views", OSError),
    (ANALYZE, "image_pipeline.components.transform.finish:write_summary", ValueError),
    (REPORT, "image_pipeline.report.page:render_page", OSError),
    (DOCTOR, "image_pipeline.doctor.examine:examine", ValueError),
    (PREVIEW, "image_pipeline.preview.samples:read_views", OSError),
    (("verify", "data"), "image_pipeline.components.dataset.verify:check_shard", RuntimeError),
    (
        ("verify", "data", "--epoch", "0"),
        "image_pipeline.components.feeding.verify_epoch:_read_step",
        OSError,
    ),
    (PLAN, "image_pipeline.components.ingest.forecast:prepare_source", RuntimeError),
    (COMPILE, "image_pipeline.run.template:write_template", OSError),
    (("inspect", "graph"), "image_pipeline.named_folder:find_graph", ValueError),
    (("quarantine", "list", "data"), "image_pipeline.components.dataset.lists:read_list", OSError),
    (
        ("init", "images", "--output", "c.yaml"),
        "image_pipeline.init.sizes:measure_sizes",
        RuntimeError,
    ),
]
_EVALUATE = (
    "tensorflow_model_analysis.utils.model_util:ModelSignaturesDoFn._batch_reducible_process"
)
# In this order, so that what comes before a stage is finished, and taken from TFX's cache. The
# Trainer's module is loaded again by TFX, so what it imports is planted.
COMPONENTS = [
    ("image_pipeline.run.run_plan:survey_source", OSError),
    ("image_pipeline.run.local:create_pipeline", ValueError),
    ("image_pipeline.components.ingest.run:prepare_chunk", OSError),
    ("image_pipeline.components.transform.record_batches:read_views", OSError),
    wide("tfx.components.statistics_gen.executor:Executor.Do", RuntimeError),
    wide("image_pipeline.components.tasks.task:read_class_names", ValueError),
    wide("image_pipeline.components.training.resume:split_epochs", RuntimeError),
    ("image_pipeline.components.training.serving:export_model", OSError),
    (_EVALUATE, TypeError),
    wide("image_pipeline.show.summary:_gather_training", KeyError),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("unforeseen")
    write_folder(made / "images", per_class=10)
    assert call(_in(made, INGEST)) == 0
    return made


def _in(folder, arguments):
    named = {"images", "data", "graph", "out", "report.html", "preview.png", "c.yaml"}
    return [str(folder / each) if each in named else each for each in arguments]


def _plant(monkeypatch, place, kind):
    """Has a function fail; a class's method, too."""

    def fail(*_, **__):
        raise kind("planted here")

    module, _, names = place.partition(":")
    *owners, name = names.split(".")
    owner = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    assert hasattr(owner, name)
    monkeypatch.setattr(owner, name, fail)


def _assert_told(capfd, arguments, place, kind):
    """Runs a command whose stage fails: one message, and the traceback in the log."""
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        open(2, "w", closefd=False, buffering=1) as stderr,
    ):
        _plant(monkeypatch, place, kind)
        capfd.readouterr()  # What libraries said while they were imported to be planted.
        # Pytest's own stream would not follow when the terminal's descriptors do.
        monkeypatch.setattr(sys, "stderr", stderr)
        code = call(arguments)
    err = capfd.readouterr().err
    assert code == 4, err
    assert len(err.splitlines()) == 2, err
    first, last = err.splitlines()
    assert re.match(f"Unexpected error: {kind.__name__}: '?planted here", first)
    log_path = last.removeprefix("The details are in ")
    with open(log_path, encoding="utf-8") as log:
        text = log.read()
    assert "Traceback" in text and "planted here" in text


@pytest.mark.parametrize(("arguments", "place", "kind"), STAGES, ids=lambda each: str(each)[:60])
def test_a_command(folder, tmp_path, capfd, arguments, place, kind):
    for name in ("images", "data"):
        if name in arguments and arguments[0] != "ingest":
            (tmp_path / name).symlink_to(folder / name)
    if arguments[0] == "ingest":
        (tmp_path / "images").symlink_to(folder / "images")
    _assert_told(capfd, _in(tmp_path, arguments), place, kind)


@pytest.mark.parametrize(("place", "kind"), COMPONENTS, ids=lambda each: str(each))
def test_a_run(folder, capfd, place, kind):
    _assert_told(capfd, _in(folder, (*RUN, "--quiet")), place, kind)


def test_a_run_goes_on_after_all_that(folder):
    assert call(_in(folder, (*RUN, "--quiet"))) in (0, 3)
