"""What the pipeline's options do to its components."""

import pytest
from tfx.components.util import udf_utils

from image_pipeline.config import load_config
from image_pipeline.pipeline import create_pipeline

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("overrides", "cache_dir"),
    [
        ([], None),
        (["transform.keep_cache=true"], "gs://bucket/root/analyzer_cache"),
        (["spans.window=2"], "gs://bucket/root/analyzer_cache"),
    ],
    ids=str,
)
def test_the_analyzer_cache_is_kept_beside_the_outputs_of_all_runs(overrides, cache_dir):
    config = load_config(None, overrides)
    images_dir, root = "gs://bucket/day-{SPAN}", "gs://bucket/root"
    pipeline = create_pipeline(config, images_dir, root, "gs://bucket/push", span=7)
    (transform,) = [each for each in pipeline.components if each.id == "ImageTransform"]
    assert transform.exec_properties["cache_dir"] == cache_dir


def test_the_evaluator_counts_its_records():
    pipeline = create_pipeline(load_config(None), "images", "root", "push")
    (evaluator,) = [each for each in pipeline.components if each.id == "Evaluator"]
    found = udf_utils.get_fn(evaluator.exec_properties, "custom_extractors")
    assert found.__module__ == "image_pipeline.components.training.counting"
