"""Each kind of label as a task: how it is found, what is judged, which options it refuses."""

import sys

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.rules import check
from image_pipeline.components.tasks.choose_task import TASKS, choose_task, find_task
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.rules import TRAINING
from tests import graphs

pytestmark = pytest.mark.unit

# Of each task: options of such data sets, and what their analysis says.
FOUND = {
    "classification": ({"column_types": {"label": "string", "age": "int"}}, {}),
    "tagging": ({"column_types": {"label": "strings", "age": "int"}}, {"label": "image/tags"}),
    "regression": ({"column_types": {"label": "float"}}, {"label": "image/value"}),
    "detection": ({"column_types": {"boxes": "boxes"}}, {"box_classes": ["a"]}),
    "segmentation": (
        {"masks": {"images": "a/{key}.*", "masks": "b/{key}.*"}},
        {"mask_classes": ["a"]},
    ),
}
# The metrics, the option of the first one's bound, and what is compared: the truth and answers.
JUDGED = {
    "classification": (["SparseCategoricalAccuracy"], "min_accuracy", ("label", "probabilities")),
    "tagging": (["TagScores"], "min_f1", ("tags", "probabilities")),
    "regression": (
        ["MeanSquaredError", "MeanAbsoluteError"],
        "max_mean_squared_error",
        ("value", "value"),
    ),
    "detection": (["MeanAveragePrecision"], "min_map_50_95", ("objects", "objects")),
    "segmentation": (["MeanIoU"], "min_mean_iou", ("mask", "mask")),
}
OPTIONS = {
    "weights": ({}, {"class_weights": "balanced"}),
    "mixed weights": ({"augment": ["mixup"]}, {"class_weights": "balanced"}),
    "smoothing": ({}, {"label_smoothing": 0.1}),
    "mixup": ({"augment": ["mixup"]}, {}),
    "cutmix": ({"augment": ["cutmix"]}, {}),
    "one-hot": ({"labels": "one_hot"}, {}),
}
NUMBERS = "but the labels are numbers; leave it at"
OF_BOXES, OF_MASKS = "images by their class, but each box has", "images by their class, but masks"
MIXED = "mixup or cutmix, which mix the labels of two images, and boxes cannot be mixed"
# All others are taken.
REFUSED = {
    "classification": {"mixed weights": "but mixup and cutmix give each record two"},
    "tagging": {"one-hot": "but these have tags; leave it at ids"},
    "regression": {
        **{"weights": NUMBERS, "mixed weights": NUMBERS, "smoothing": NUMBERS},
        "one-hot": "but these have values; leave it at ids",
    },
    "detection": {
        **{"weights": OF_BOXES, "mixed weights": OF_BOXES, "mixup": MIXED, "cutmix": MIXED},
        "smoothing": "but boxes are compared point by point; leave it at 0",
        "one-hot": "but these have boxes; leave it at ids",
    },
    "segmentation": {
        **{"weights": OF_MASKS, "mixed weights": OF_MASKS},
        "smoothing": "but masks are compared pixel by pixel; leave it at 0",
        "mixup": "mixup, which blends the labels of two images, and class ids of pixels cannot",
        "one-hot": "but these have masks; leave it at ids",
    },
}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_chosen_by_options_and_found_by_the_graph(name, tmp_path):
    options, said = FOUND[name]
    assert choose_task(IngestOptions.model_validate(options)) is TASKS[name]
    graphs.write_analysis(tmp_path, **said)
    assert find_task(str(tmp_path)) is TASKS[name]


def test_classes_are_the_task_where_nothing_says_otherwise(tmp_path):
    assert choose_task(IngestOptions()) is find_task(str(tmp_path)) is TASKS["classification"]


@pytest.mark.parametrize("name", TASKS)
def test_a_model_is_judged_over_all_records_by_the_task_s_measure_and_bound(name):
    metrics, option, compared = JUDGED[name]
    config = evaluation_config(EvaluationOptions(**{option: 0.7}), TASKS[name])
    found = config.metrics_specs[0].metrics
    assert [each.class_name for each in found] == [*metrics, "ExampleCount"]
    (bound,) = found[0].per_slice_thresholds
    limits = bound.threshold.value_threshold.ListFields()
    side = "lower_bound" if option.startswith("min") else "upper_bound"
    assert [(limit.name, value.value) for limit, value in limits] == [(side, 0.7)]
    slices = [list(each.feature_keys) for each in config.slicing_specs]
    assert slices == ([[], ["image/class/text"]] if name == "classification" else [[]])
    (spec,) = config.model_specs
    assert (spec.label_key, spec.prediction_key) == compared


def test_values_need_no_bound():
    config = evaluation_config(EvaluationOptions(), TASKS["regression"])
    (bound,) = config.metrics_specs[0].metrics[0].per_slice_thresholds
    assert bound.threshold.value_threshold.upper_bound.value == sys.float_info.max


@pytest.mark.parametrize("name", TASKS)
def test_options_for_classes_are_refused_where_there_are_none(name):
    for what, (feeding, training) in OPTIONS.items():
        options = {
            "feeding": FeedingOptions.model_validate(feeding),
            "training": TrainingOptions(**training),
        }
        if rule := REFUSED[name].get(what):
            with pytest.raises(UserError, match=rule):
                check(TRAINING, labels=TASKS[name].label, **options)
        else:
            check(TRAINING, labels=TASKS[name].label, **options)
