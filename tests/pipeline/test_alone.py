"""Ingest, retry and the analysis tell workers elsewhere where things are."""

import pytest

from components.ingest.options import IngestOptions
from components.transform.options import TransformOptions
from components.view_options import ViewOptions
from pipeline import analysis, ingest

pytestmark = pytest.mark.unit

FAR = ["--runner=FlinkRunner"]


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (ingest, "run_ingest", lambda: ingest.ingest_folder("a", "b", IngestOptions(), FAR)),
        (ingest, "run_retry", lambda: ingest.retry_folder("a", "b", None, FAR)),
        (
            analysis,
            "run_analysis",
            lambda: analysis.analyze_folder("a", "b", ViewOptions(), TransformOptions(), FAR),
        ),
    ],
)
def test_paths_are_absolute(module, name, call, tmp_path, monkeypatch):
    asked = []

    def stop(*arguments):
        asked.extend(arguments[:2])
        raise InterruptedError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, name, stop)
    with pytest.raises(InterruptedError):
        call()
    assert asked == [f"{tmp_path}/a", f"{tmp_path}/b"]
