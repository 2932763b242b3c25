"""Workers elsewhere are told where things are, and one run at a time writes to a folder."""

import contextlib
import sys
import types

import pytest

from image_pipeline.commands import run
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import run as ingest_job
from image_pipeline.components.locks import hold_lock
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import FOLDER
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.config import PipelineConfig
from image_pipeline.run import analysis, ingest
from image_pipeline.run_folder import RunFolder

pytestmark = pytest.mark.unit

FAR = ["--runner=FlinkRunner"]


def _listing():
    return Listing(None, FOLDER, IngestOptions(), None, None)


def _run(out):
    """A run of three images of no class, as the command makes it."""
    plan = types.SimpleNamespace(
        config=PipelineConfig(),
        part=None,
        images_dir="images",
        output_dir=out,
        folder=RunFolder(out),
        earlier=(),
        beam_args=["--runner=FnApiRunner"],
    )
    options = types.SimpleNamespace(understood=())
    survey = types.SimpleNamespace(classes={}, found=3, options=options, noticed=())
    run._run_and_tell(plan, survey, False, True)


@pytest.mark.parametrize(
    ("module", "name", "folders", "call"),
    [
        (
            ingest_job,
            "run_ingest",
            ["b", "b/.work"],
            lambda: ingest.ingest_folder(_listing(), "b", FAR),
        ),
        (
            analysis,
            "run_analysis",
            ["a", "b", "cache"],
            lambda: analysis.analyze_folder(
                "a", "b", ViewOptions(), TransformOptions(), FAR, "cache"
            ),
        ),
    ],
)
def test_paths_are_absolute(module, name, folders, call, tmp_path, monkeypatch):
    asked = []

    def stop(*arguments):
        asked.extend(each for each in arguments if isinstance(each, str))
        raise InterruptedError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, name, stop)
    with pytest.raises(InterruptedError):
        call()
    assert asked == [f"{tmp_path}/{name}" for name in folders]


@pytest.mark.parametrize(
    "call",
    [
        lambda out: ingest.ingest_folder(_listing(), out, []),
        _run,
        lambda out: analysis.analyze_folder("data", out, ViewOptions(), TransformOptions(), []),
    ],
    ids=["ingest", "run", "analyze"],
)
def test_a_second_run_into_one_folder_is_refused_before_it_does_anything(tmp_path, call):
    out = tmp_path / "out"
    with hold_lock(str(out)), pytest.raises(UserError, match=r"Another run \(process .* writing"):
        call(str(out))
    assert list(out.iterdir()) == []


def _overtaken():
    """What a holder of a lock checks it with, and what makes another run take it over."""
    is_held = True

    def check():
        if not is_held:
            raise UserError("Another run has taken over")

    def take_over():
        nonlocal is_held
        is_held = False

    return check, take_over


def test_an_ingest_that_was_taken_for_dead_writes_nothing_more(tmp_path, monkeypatch):
    check, take_over = _overtaken()
    monkeypatch.setattr(ingest, "hold_lock", lambda folder: contextlib.nullcontext(check))
    monkeypatch.setattr(ingest_job, "run_ingest", lambda *_: take_over())
    monkeypatch.setattr(ingest, "write_source", lambda *_: pytest.fail("It was written."))
    with pytest.raises(UserError, match="has taken over"):
        ingest.ingest_folder(_listing(), str(tmp_path), [])


@pytest.mark.parametrize("when", ["between components", "after the last"])
def test_a_run_that_was_taken_for_dead_begins_no_further_component(tmp_path, monkeypatch, when):
    check, take_over = _overtaken()
    begun = []

    def run_locally(plan, start, finish):
        for name in ("Trainer", "Pusher"):
            start(name)
            begun.append(name)
            if when == "between components" or name == "Pusher":
                take_over()

    fake = types.SimpleNamespace(run_locally=run_locally)
    monkeypatch.setitem(sys.modules, "image_pipeline.run.local", fake)
    locks = "image_pipeline.components.locks"
    monkeypatch.setattr(f"{locks}.hold_lock", lambda folder: contextlib.nullcontext(check))
    monkeypatch.setattr("image_pipeline.run.functions.check_functions", lambda *_: ())
    with pytest.raises(UserError, match="has taken over"):
        _run(str(tmp_path))
    assert begun == (["Trainer"] if when == "between components" else ["Trainer", "Pusher"])
