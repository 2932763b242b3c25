"""What the pipeline's options do to its components."""

import json

import pytest
from tfx.components.util import udf_utils

from image_pipeline import pipeline
from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.pipeline import create_pipeline
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


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["training.class_weights=balanced"],
            "class_weights=balanced weighs images by their class",
        ),
        (["feeding.augment=[mixup]"], "feeding.augment has mixup, which blends the labels"),
    ],
    ids=str,
)
def test_what_masks_have_no_class_for_is_refused_before_a_pipeline_is_made(overrides, message):
    create_pipeline(load_config(None, overrides), "images", "root", "push")
    with pytest.raises(UserError, match=message):
        create_pipeline(load_config(None, [MASKS, *overrides]), "images", "root", "push")
    create_pipeline(
        load_config(None, [MASKS, "feeding.augment=[cutmix]"]), "images", "root", "push"
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["training.model=unet"], "training.model=unet gives masks, but the labels belong to"),
        ([MASKS, "training.model=resnet"], "gives one answer an image, but the data has masks"),
        (
            ["training.model=ResNet50"],
            "ResNet50 wants the pixels of transform.preprocessing_fn=caffe, but it is standardize",
        ),
        (
            ["training.model=VGG16", "transform.preprocessing_fn=imagenet"],
            "wants the pixels of transform.preprocessing_fn=caffe, but it is imagenet",
        ),
    ],
    ids=str,
)
def test_a_model_that_does_not_fit_the_data_is_refused_before_a_pipeline_is_made(
    overrides, message
):
    with pytest.raises(UserError, match=message):
        create_pipeline(load_config(None, overrides), "images", "root", "push")


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
