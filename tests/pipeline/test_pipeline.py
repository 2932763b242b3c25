"""What the pipeline's options do to its components."""

import pytest

from pipeline.config import load_config
from pipeline.pipeline import create_pipeline

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("overrides", "cache_dir"),
    [([], None), (["transform.keep_cache=true"], "gs://bucket/root/analyzer_cache")],
    ids=str,
)
def test_the_analyzer_cache_is_kept_beside_the_outputs_of_all_runs(overrides, cache_dir):
    config = load_config(None, overrides)
    pipeline = create_pipeline(config, "gs://bucket/images", "gs://bucket/root", "gs://bucket/push")
    (transform,) = [each for each in pipeline.components if each.id == "ImageTransform"]
    assert transform.exec_properties["cache_dir"] == cache_dir
