"""ImageTransform's contract: what reaches the analysis."""

import numpy as np
import pytest
from tfx.types import channel_utils, standard_artifacts

from image_pipeline.components.errors import UserError
from image_pipeline.components.transform import component
from image_pipeline.components.transform.component import ImageTransform, ImageTransformExecutor
from image_pipeline.components.transform.kept_sums import KEY, write_sums
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.unit


def _artifact(kind, uri):
    artifact = kind()
    artifact.uri = str(uri)
    return artifact


def _transform(**arguments):
    examples = channel_utils.as_channel([standard_artifacts.Examples()])
    return ImageTransform(examples, ViewOptions(), TransformOptions(), **arguments)


def test_the_cache_is_optional():
    assert _transform().exec_properties["cache_dir"] is None
    assert _transform(cache_dir="gs://b/c").exec_properties["cache_dir"] == "gs://b/c"


def test_options_may_be_mappings_and_the_cache_a_path(tmp_path):
    examples = channel_utils.as_channel([standard_artifacts.Examples()])
    given = ImageTransform(examples, {"height_px": 32}, {"columns": ["image/height"]}, tmp_path)
    options = TransformOptions(columns=("image/height",))
    same = ImageTransform(examples, ViewOptions(height_px=32), options, str(tmp_path))
    assert given.exec_properties == same.exec_properties
    with pytest.raises(UserError, match=r"view\.hight_px: unknown key; did you mean height_px\?"):
        ImageTransform(examples, {"hight_px": 32})
    with pytest.raises(UserError, match=r"transform\.batch: unknown key; did you mean batch_size"):
        ImageTransform(examples, {}, {"batch": 3})


@pytest.mark.parametrize("cache", [{}, {"cache_dir": "kept"}], ids=["no cache", "cache"])
def test_do_passes_all_data_sets_the_cache_and_the_earlier_graph(tmp_path, monkeypatch, cache):
    calls = []
    monkeypatch.setattr(component, "run_analysis", lambda *arguments: calls.append(arguments))
    kinds = standard_artifacts
    write_sums(str(tmp_path / "earlier"), ViewOptions(), [np.ones((1, KEY + 7), np.int64)])
    ImageTransformExecutor().Do(
        {"examples": [_artifact(kinds.Examples, tmp_path / name) for name in "ab"]},
        {"transform_graph": [_artifact(kinds.TransformGraph, tmp_path / "graph")]},
        {
            "view": ViewOptions().model_dump_json(),
            "options": TransformOptions().model_dump_json(),
            **cache,
        },
    )
    ((folders, graph, view, options, _, cache_dir, earlier),) = calls
    assert folders == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert (graph, cache_dir) == (str(tmp_path / "graph"), cache.get("cache_dir"))
    assert earlier == str(tmp_path / "earlier")
    assert (view, options) == (ViewOptions(), TransformOptions())
