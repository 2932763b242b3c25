"""Each kind of label as a task: how it is found, what is judged, which options it refuses."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks import signatures
from image_pipeline.components.tasks.choose_task import TASKS, choose_task, find_task
from image_pipeline.components.tasks.options import EvaluationOptions
from tests import graphs

pytestmark = pytest.mark.unit


@dataclasses.dataclass(frozen=True)
class Told:
    """What tells a task, and what it tells.

    Attributes:
      ingest: options of the data sets that it is for.
      analysis: what the analysis says of such.
      judged: the metric's class, and the option of its bound: "min_…" or "max_…".
      compared: the names of the truth and of the answers in the signatures.
      refused: what each of the options that are for classes is refused with.
      further: the metrics' classes beside it.
    """

    ingest: Mapping[str, Any]
    analysis: Mapping[str, Any]
    judged: tuple[str, str]
    compared: tuple[str, str]
    refused: Mapping[str, str]
    further: tuple[str, ...] = ("ExampleCount",)


WEIGHED = "class_weights=balanced weighs {} by their class, but {}; leave it at none"
SMOOTHED = "label_smoothing=0.1 spreads the classes or tags of images, but {}; leave it at 0"
PAIRS = {"masks": {"images": "a/{key}.*", "masks": "b/{key}.*"}}

TOLD = {
    "classification": Told(
        ingest={"column_types": {"label": "string", "age": "int"}},
        analysis={},
        judged=("SparseCategoricalAccuracy", "min_accuracy"),
        compared=(signatures.LABEL, signatures.PROBABILITIES),
        refused={"mixed weights": "but mixup and cutmix give each record two; leave out one"},
    ),
    "tagging": Told(
        ingest={"column_types": {"label": "strings", "age": "int"}},
        analysis={"label": "image/tags"},
        judged=("TagScores", "min_f1"),
        compared=(signatures.TAGS, signatures.PROBABILITIES),
        refused={},
    ),
    "regression": Told(
        ingest={"column_types": {"label": "float"}},
        analysis={"label": "image/value"},
        judged=("MeanSquaredError", "max_mean_squared_error"),
        compared=(signatures.VALUE, signatures.VALUE),
        refused={
            "weights": WEIGHED.format("records", "the labels are numbers"),
            "smoothing": SMOOTHED.format("the labels are numbers"),
        },
        further=("MeanAbsoluteError", "ExampleCount"),
    ),
    "detection": Told(
        ingest={"column_types": {"boxes": "boxes"}},
        analysis={"box_classes": ["a"]},
        judged=("MeanAveragePrecision", "min_map_50_95"),
        compared=("objects", "objects"),
        refused={
            "weights": WEIGHED.format("images", "each box has a class"),
            "smoothing": SMOOTHED.format("boxes are compared point by point"),
            "mixup": "mixup or cutmix, which mix the labels of two images, and boxes cannot be",
            "cutmix": "mixup or cutmix, which mix the labels of two images, and boxes cannot be",
        },
    ),
    "segmentation": Told(
        ingest=PAIRS,
        analysis={"mask_classes": ["a"]},
        judged=("MeanIoU", "min_mean_iou"),
        compared=(signatures.MASK, signatures.MASK),
        refused={
            "weights": WEIGHED.format("images", "masks have a class for each pixel"),
            "smoothing": SMOOTHED.format("masks are compared pixel by pixel"),
            "mixup": "mixup, which blends the labels of two images, and class ids of pixels cannot",
        },
    ),
}
OPTIONS = {
    "weights": ({}, {"class_weights": "balanced"}),
    "mixed weights": ({"augment": ["mixup"]}, {"class_weights": "balanced"}),
    "smoothing": ({}, {"label_smoothing": 0.1}),
    "mixup": ({"augment": ["mixup"]}, {}),
    "cutmix": ({"augment": ["cutmix"]}, {}),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_chosen_by_options_and_found_by_the_graph(name, tmp_path):
    assert choose_task(IngestOptions.model_validate(TOLD[name].ingest)) is TASKS[name]
    graphs.write_analysis(tmp_path, **TOLD[name].analysis)
    assert find_task(str(tmp_path)) is TASKS[name]


def test_classes_are_the_task_where_nothing_says_otherwise(tmp_path):
    assert choose_task(IngestOptions()) is find_task(str(tmp_path)) is TASKS["classification"]


@pytest.mark.parametrize("name", TASKS)
def test_a_model_is_judged_over_all_records_by_the_task_s_measure_and_bound(name):
    told = TOLD[name]
    class_name, option = told.judged
    config = evaluation_config(EvaluationOptions(**{option: 0.7}), TASKS[name])
    judged, *further = config.metrics_specs[0].metrics
    assert judged.class_name == class_name
    assert tuple(each.class_name for each in further) == told.further
    (bound,) = judged.per_slice_thresholds
    wanted = {"min": "lower_bound", "max": "upper_bound"}[option[:3]]
    limits = bound.threshold.value_threshold
    assert [(limit.name, value.value) for limit, value in limits.ListFields()] == [(wanted, 0.7)]
    slices = [list(each.feature_keys) for each in config.slicing_specs]
    assert slices == ([[], ["image/class/text"]] if name == "classification" else [[]])
    (spec,) = config.model_specs
    assert (spec.label_key, spec.prediction_key) == told.compared


def test_values_need_no_bound():
    config = evaluation_config(EvaluationOptions(), TASKS["regression"])
    (bound,) = config.metrics_specs[0].metrics[0].per_slice_thresholds
    assert not bound.threshold.value_threshold.ListFields()


@pytest.mark.parametrize("name", TASKS)
def test_options_for_classes_are_refused_where_there_are_none(name):
    for what, (feeding, training) in OPTIONS.items():
        options = FeedingOptions.model_validate(feeding), TrainingOptions(**training)
        # What is refused alone is refused together, too.
        alone = "weights" if what == "mixed weights" else what
        if rule := TOLD[name].refused.get(what, TOLD[name].refused.get(alone)):
            with pytest.raises(UserError, match=rule):
                TASKS[name].check_options(*options)
        else:
            TASKS[name].check_options(*options)
