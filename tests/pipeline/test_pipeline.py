"""What the pipeline's options do to its components."""

import json

import pytest
from tfx.components.util import udf_utils
from tfx.dsl.components.common.resolver import RESOLVER_CONFIG

from image_pipeline import pipeline
from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.pipeline import content_version, create_pipeline
from image_pipeline.run import local

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("root", "overrides", "cache_dir"),
    [
        ("gs://bucket/root", [], None),
        ("gs://bucket/root", ["transform.keep_cache=true"], "gs://bucket/root/analyzer_cache"),
        ("gs://bucket/root", ["spans.window=2"], "gs://bucket/root/analyzer_cache"),
        # As Kubeflow lets a root say how its store is reached.
        ("s3://b/root?region=x", ["spans.window=2"], "s3://b/root/analyzer_cache"),
    ],
    ids=str,
)
def test_the_analyzer_cache_is_kept_beside_the_outputs_of_all_runs(root, overrides, cache_dir):
    config = load_config(None, overrides)
    images_dir = "gs://bucket/day-{SPAN}"
    created = create_pipeline(config, images_dir, root, "gs://bucket/push", span=7)
    (transform,) = [each for each in created.components if each.id == "ImageTransform"]
    assert transform.exec_properties["cache_dir"] == cache_dir


def test_what_is_taken_from_tfx_is_what_its_public_interface_gives():
    from tfx import v1

    public = (v1.components, v1.dsl, v1.dsl.experimental, v1.orchestration)
    given = {name: getattr(module, name) for module in public for name in dir(module)}
    modules = (local, pipeline)
    taken = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__.startswith("tfx.") and name in given
    }
    assert set(taken) == {
        *("Channel", "ExampleValidator", "LatestBlessedModelStrategy", "LocalDagRunner"),
        *("Pipeline", "Resolver", "RuntimeParameter", "SchemaGen", "Trainer"),
    }
    assert taken == {name: given[name] for name in taken}


MASKS = 'ingest.masks={images: "a/{key}.*", masks: "b/{key}.*"}'


def test_what_does_not_fit_the_labels_is_refused_before_a_pipeline_is_made():
    """`tests/golden` has the text of each refusal."""
    balanced = "training.class_weights=balanced"
    for overrides in ([MASKS, "feeding.augment=[cutmix]"], [balanced]):
        create_pipeline(load_config(None, overrides), "images", "root", "push")
    with pytest.raises(UserError, match="class_weights=balanced weighs images by their class"):
        create_pipeline(load_config(None, [MASKS, balanced]), "images", "root", "push")


def test_masks_are_judged_by_their_mean_iou():
    config = load_config(None, [MASKS, "evaluation.min_mean_iou=0.4"])
    pipeline = create_pipeline(config, "images", "root", "push")
    (evaluator,) = [each for each in pipeline.components if each.id == "Evaluator"]
    told = json.loads(evaluator.exec_properties["eval_config"])
    judged = told["metrics_specs"][0]["metrics"][0]
    assert judged["class_name"] == "MeanIoU"
    (bound,) = judged["per_slice_thresholds"]
    assert bound["threshold"]["value_threshold"] == {"lower_bound": 0.4}
    assert told["slicing_specs"] == [{}]


def test_the_trainer_is_told_all_random_steps_even_if_nobody_names_any():
    told = []
    for overrides in ([], [MASKS, "view={height_px: 32, width_px: 99}"], ["feeding.augment=[]"]):
        created = create_pipeline(load_config(None, overrides), "images", "root", "push")
        (trainer,) = [each for each in created.components if each.id == "Trainer"]
        feeding = json.loads(trainer.exec_properties["custom_config"])["feeding"]
        told.append([step["op"] for step in feeding["augment"]])
    assert told == [["random_resized_crop", "flip_horizontal"], ["flip_horizontal"], []]


def test_the_evaluator_counts_its_records():
    pipeline = create_pipeline(load_config(None), "images", "root", "push")
    (evaluator,) = [each for each in pipeline.components if each.id == "Evaluator"]
    found = udf_utils.get_fn(evaluator.exec_properties, "custom_extractors")
    assert found.__module__ == "image_pipeline.components.evaluation.counting"


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


def test_it_changes_with_what_files_hold_and_are_called(tmp_path):
    folder = tmp_path / "model"
    assert content_version(str(folder)) == "0" * 16
    folder.mkdir()
    seen = set()
    for name, content in (("a", b"1"), ("a", b"2"), ("b", b"2")):
        (folder / name).write_bytes(content)
        seen |= {content_version(str(folder)), content_version(str(folder / name))}
    assert len(seen) == 6 - 1  # The file a of 2 and b of 2 hold the same.
