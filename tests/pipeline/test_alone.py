"""Workers elsewhere are told where things are, and one run at a time writes to a folder."""

import types

import pytest

from image_pipeline.commands import run
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.locks import hold_lock
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.run import analysis, ingest

pytestmark = pytest.mark.unit

FAR = ["--runner=FlinkRunner"]


@pytest.mark.parametrize(
    ("module", "name", "folders", "call"),
    [
        (
            ingest,
            "run_ingest",
            ["a", "b", "b/.work"],
            lambda: ingest.ingest_folder("a", "b", IngestOptions(), FAR),
        ),
        (
            ingest,
            "run_retry",
            ["a", "b", "b/.retry"],
            lambda: ingest.retry_folder("a", "b", None, FAR),
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
        lambda out: ingest.ingest_folder("images", out, IngestOptions(), []),
        lambda out: ingest.retry_folder("images", out, None, []),
        lambda out: run._run_and_tell(types.SimpleNamespace(output_dir=out), None, False, True),
    ],
    ids=["ingest", "retry", "run"],
)
def test_a_second_run_into_one_folder_is_refused_before_it_does_anything(tmp_path, call):
    out = tmp_path / "out"
    with hold_lock(str(out)), pytest.raises(UserError, match=r"Another run \(process .* writing"):
        call(str(out))
    assert list(out.iterdir()) == []
