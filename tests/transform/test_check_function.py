"""A preprocessing_fn's mistakes are told before any data are read."""

import pathlib

import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.transform import preprocessing
from image_pipeline.components.transform.check_function import (
    check_dependencies,
    check_outputs,
    reach_inputs,
)
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.transform.traced_function import guard, trace
from image_pipeline.components.views.options import ViewOptions
from tests.transform import bad_functions

pytestmark = pytest.mark.unit

SPECS = input_specs(ViewOptions(height_px=4, width_px=4), parse.columns_of([record.HEIGHT]))


def check(function):
    traced = trace(guard(getattr(bad_functions, function), "pkg.fn"), SPECS)
    check_outputs(traced, "pkg.fn")
    check_dependencies(traced, "pkg.fn")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("no_dict", r"pkg\.fn must return a dict of .*, got \w*Tensor; return such a dict"),
        ("no_label", r"must return a dict of .*, got \['image'\]; return \['label'\] too"),
        ("ragged", r"dense tensor as 'image', got RaggedTensor; make it dense"),
        ("integer_image", r"the image as float32, got uint8 \[\?, 4, 4, 3\]; cast it"),
        ("double_image", r"the image as float32, got float64 \[\?, 4, 4, 3\]; cast it"),
        ("half_image", r"the image as float32, got float16"),
        ("brain_image", r"the image as float32, got bfloat16"),
        ("smaller_image", r"the view's size \[\?, 4, 4, 3\], got float32 \[\?, 2, 2, 3\]; .*view"),
        ("gray_image", r"the view's size \[\?, 4, 4, 3\], got float32 \[\?, 4, 4, 1\]; .*channels"),
        ("flat_image", r"the view's size \[\?, 4, 4, 3\], got float32 \[\?, 48\]"),
        ("double_extra", r"'ratio' as float32, int64 or string, .* got float64 \[\?\]; cast it"),
        ("boolean_extra", r"'is_dark' as float32, int64 or string, .* got bool"),
        ("scalar_extra", r"'mean' as \[batch, \.\.\.\], got float32 \[\]"),
        ("python_extra", r"must return tensors, got int as 'version'"),
        ("number_as_key", r"strings as keys, got 3"),
        ("string_label", r"the label as int64 \[batch\], got string \[\?\]; use .*label_ids"),
        ("one_mean", r"the image as \[batch, \.\.\.\] of known size, got float32 \[\]"),
        ("unbatched", r"one output for each image .*, got float32 \[1, 48\]"),
        ("unknown_size", r"of known size, got float32 \[\?, \?, 4, 3\]; .*tf\.ensure_shape"),
        ("unknown_key", r"reads the input 'lable', but its inputs are \['image', 'image/height', "
                        r"'label'\]; did you mean label\? Name further columns"),
        ("image_from_label", r"makes the image output from \['label'\]: when a model is served"),
        ("label_from_image", r"makes the label output from the image"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_way_out(function, message):
    with pytest.raises(UserError, match=message):
        check(function)


def test_an_error_inside_the_function_has_its_name_and_line():
    source = pathlib.Path(bad_functions.__file__).read_text().splitlines()
    line = 1 + next(number for number, text in enumerate(source) if text.endswith("# fails"))
    with pytest.raises(UserError, match=rf"pkg\.fn failed \(line {line}\): \w+Error: .*") as error:
        check("fails")
    assert isinstance(error.value.__cause__, Exception)


def test_a_full_disk_is_not_the_function_s_fault():
    """Where an analysis has its temporary files, which tf.Transform reads as it traces."""

    def meet_full_disk(inputs):
        raise tf.errors.ResourceExhaustedError(None, None, "/tmp/a; No space left on device")

    with pytest.raises(UserError, match="Cannot write /tmp/a: the disk is full"):
        trace(guard(meet_full_disk, "pkg.fn"), SPECS)


def test_statistics_of_the_data_set_are_no_dependency():
    traced = trace(guard(preprocessing.standardize, "pkg.fn"), SPECS)
    assert reach_inputs(traced, traced.outputs["image"]) == {"image"}
    assert reach_inputs(traced, traced.outputs["label"]) == {"label"}
