"""Which nodes look up what earlier runs left, and who takes what they find."""

import pytest
from tfx.dsl.components.common.resolver import RESOLVER_CONFIG

from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.pipeline import create_pipeline

pytestmark = pytest.mark.unit


def _create(*overrides, **arguments):
    """The pipeline's nodes by their names."""
    pipeline = create_pipeline(
        load_config(None, overrides), "d-{SPAN}", "root", "push", **arguments
    )
    return {node.id: node for node in pipeline.components}


@pytest.mark.parametrize("window", [1, 3, "all"])
def test_the_window_decides_whose_examples_are_learnt_from(window):
    nodes = _create(f"spans.window={window}", span=7)
    assert nodes["ImageExampleGen"].exec_properties["span"] == "7"
    source = "ImageExampleGen" if window == 1 else "SpanResolver"
    assert ("SpanResolver" in nodes) is (window != 1)
    for name in ("ImageTransform", "Trainer", "Evaluator"):
        assert nodes[name].inputs["examples"].producer_component_id == source
    # Statistics tell of what is new.
    assert nodes["StatisticsGen"].inputs["examples"].producer_component_id == "ImageExampleGen"


@pytest.mark.parametrize(("window", "count"), [(3, 3), ("all", 0)])
def test_the_resolver_ends_at_the_span_that_is_run(window, count):
    nodes = _create(f"spans.window={window}", span=7)
    resolver = nodes["SpanResolver"]
    assert resolver.exec_properties[RESOLVER_CONFIG] == {"newest": 7, "count": count}
    assert nodes["ImageExampleGen"] in resolver.upstream_nodes


def test_a_window_needs_a_span_that_is_known():
    with pytest.raises(UserError, match=r"spans\.window=2 needs TFX's metadata"):
        _create("spans.window=2")


@pytest.mark.parametrize("min_improvement", ["null", "0", "0.01"])
def test_a_baseline_is_looked_for_only_if_models_are_compared(min_improvement):
    nodes = _create(f"evaluation.min_improvement={min_improvement}")
    compared = min_improvement != "null"
    assert ("BaselineResolver" in nodes) is compared
    assert ("baseline_model" in nodes["Evaluator"].inputs) is compared


@pytest.mark.parametrize("warm_start", ["none", "latest_blessed"])
def test_a_start_is_looked_for_only_if_training_begins_with_it(warm_start):
    nodes = _create(f"training.warm_start={warm_start}")
    warm = warm_start != "none"
    assert ("StartResolver" in nodes) is warm
    assert ("base_model" in nodes["Trainer"].inputs) is warm


def test_the_trainer_sees_another_file_of_weights_at_the_same_path(tmp_path):
    path = tmp_path / "w.h5"
    seen = set()
    for content in (None, b"1", b"2"):
        if content is not None:
            path.write_bytes(content)
        seen.add(_create(f"training.weights={path}")["Trainer"].exec_properties["custom_config"])
    assert len(seen) == 3
