"""Ingest, retry and the analysis tell workers elsewhere where things are."""

import pytest

from components.ingest.options import IngestOptions
from components.transform.options import TransformOptions
from components.view_options import ViewOptions
from pipeline import analysis, ingest

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
