"""ImageTransform's channels, and the cache's way from run to run."""

import pytest
from tfx.types import channel_utils, standard_artifacts

from components.transform import component
from components.transform.component import ImageTransform, ImageTransformExecutor
from components.transform.options import TransformOptions
from components.view_options import ViewOptions

pytestmark = pytest.mark.unit


def _artifact(kind, uri):
    artifact = kind()
    artifact.uri = str(uri)
    return artifact


def test_the_cache_is_optional():
    examples = channel_utils.as_channel([standard_artifacts.Examples()])
    plain = ImageTransform(examples, ViewOptions(), TransformOptions())
    assert set(plain.outputs) == {"transform_graph"}
    keeping = ImageTransform(examples, ViewOptions(), TransformOptions(), keep_cache=True)
    assert set(keeping.outputs) == {"transform_graph", "updated_analyzer_cache"}
    earlier = keeping.outputs["updated_analyzer_cache"]
    using = ImageTransform(examples, ViewOptions(), TransformOptions(), analyzer_cache=earlier)
    assert "updated_analyzer_cache" in using.outputs and "analyzer_cache" in using.inputs


def test_do_passes_all_data_sets_and_a_copy_of_the_cache(tmp_path, monkeypatch):
    (tmp_path / "old" / "span-1").mkdir(parents=True)
    (tmp_path / "old" / "span-1" / "COMPLETE").write_text("")
    calls = []
    monkeypatch.setattr(component, "run_analysis", lambda *arguments: calls.append(arguments))
    kinds = standard_artifacts
    ImageTransformExecutor().Do(
        {
            "examples": [_artifact(kinds.Examples, tmp_path / name) for name in "ab"],
            "analyzer_cache": [_artifact(kinds.TransformCache, tmp_path / "old")],
        },
        {
            "transform_graph": [_artifact(kinds.TransformGraph, tmp_path / "graph")],
            "updated_analyzer_cache": [_artifact(kinds.TransformCache, tmp_path / "new")],
        },
        {
            "view": ViewOptions().model_dump_json(),
            "options": TransformOptions().model_dump_json(),
        },
    )
    ((folders, graph, view, options, _, cache),) = calls
    assert folders == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert (graph, cache) == (str(tmp_path / "graph"), str(tmp_path / "new"))
    assert (view, options) == (ViewOptions(), TransformOptions())
    assert (tmp_path / "new" / "span-1" / "COMPLETE").exists()
