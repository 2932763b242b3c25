"""What the trace of a `preprocessing_fn` tells of what it reads."""

import pytest
import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.transform import fixed, preprocessing, statistics, whitening
from image_pipeline.components.transform.labels import label_ids
from image_pipeline.components.transform.moments import channel_mean_and_std
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.transform.traced_function import (
    find_wanted,
    guard,
    reach_inputs,
    trace,
)
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=4, width_px=5)


def _wanted(function, view=VIEW, columns=()):
    found = find_wanted(trace(guard(function, "pkg.fn"), input_specs(view, columns)), columns)
    assert found.columns == columns
    return found.pixels, found.sums


def both(inputs):
    outputs = preprocessing.standardize(inputs)
    mean = preprocessing.subtract_mean(inputs)[contract.IMAGE_OUTPUT]
    return outputs | {contract.IMAGE_OUTPUT: outputs[contract.IMAGE_OUTPUT] + mean}


def of_other_pixels(inputs):
    mean, _ = channel_mean_and_std(255 - inputs[contract.IMAGE_INPUT])
    return {
        contract.IMAGE_OUTPUT: tf.cast(inputs[contract.IMAGE_INPUT], tf.float32)
        - tf.cast(mean, tf.float32),
        contract.LABEL_OUTPUT: label_ids(inputs[contract.LABEL_INPUT]),
    }


def statistic_only(inputs):
    darkest = tft.min(tf.cast(inputs[contract.IMAGE_INPUT], tf.int64))
    outputs = fixed.keep_levels(inputs)
    marked = [statistics.name_statistic("darkest", darkest)]
    label = statistics.keep_statistics(outputs[contract.LABEL_OUTPUT], marked)
    return outputs | {contract.LABEL_OUTPUT: label}


@pytest.mark.parametrize(
    ("function", "pixels", "sums"),
    [
        (preprocessing.standardize, False, True),
        (preprocessing.subtract_mean, True, False),
        (fixed.imagenet, False, False),
        (whitening.whiten_zca, True, False),
        (both, True, True),
        (of_other_pixels, True, False),
        (statistic_only, True, False),
    ],
)
def test_only_what_analyzers_look_at_is_read(function, pixels, sums):
    assert _wanted(function) == (pixels, sums)


def test_floats_are_read_themselves():
    view = ViewOptions(height_px=4, width_px=5, dtype="float32")
    assert _wanted(preprocessing.standardize, view) == (True, False)


def test_columns_are_kept():
    assert _wanted(fixed.caffe, columns=tuple(parse.columns_of([record.HEIGHT]))) == (False, False)


def test_statistics_of_the_data_set_are_no_dependency():
    traced = trace(guard(preprocessing.standardize, "pkg.fn"), input_specs(VIEW))
    assert reach_inputs(traced, "image") == {"image"}
    assert reach_inputs(traced, "label") == {"label"}
