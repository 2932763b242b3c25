"""A preprocessing_fn's mistakes are told before any data are read."""

import pathlib

import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.transform import preprocessing, whitening
from image_pipeline.components.transform.check_function import check_function
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.transform.run import find_function_error, load_preprocessing_fn
from image_pipeline.components.views.options import ViewOptions
from tests.transform import bad_functions

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=4, width_px=4)
SPECS = input_specs(VIEW, parse.columns_of([record.HEIGHT]))


def check(function):
    if isinstance(function, str):
        function = getattr(bad_functions, function)
    return check_function(function, "pkg.fn", SPECS)


def line_of(comment):
    lines = pathlib.Path(bad_functions.__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.endswith(f"# {comment}"))


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
    message = rf"pkg\.fn failed \(line {line_of('fails')}\): \w+Error: .*"
    with pytest.raises(UserError, match=message) as error:
        check("fails")
    assert isinstance(error.value.__cause__, Exception)


def test_a_full_disk_is_not_the_function_s_fault():
    """Where an analysis has its temporary files, which tf.Transform reads as it traces."""

    def meet_full_disk(inputs):
        raise tf.errors.ResourceExhaustedError(None, None, "/tmp/a; No space left on device")

    with pytest.raises(UserError, match="Cannot write /tmp/a: the disk is full"):
        check(meet_full_disk)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("numpy_random", "numpy.random.rand"),
        ("python_random", "random.random"),
        ("aliased_random", "random.uniform"),
        ("imported_generator", "numpy.random.default_rng"),
        ("module_generator", "random generator GENERATOR"),
        ("clock", "time.time"),
    ],
)
def test_pythons_and_numpys_randomness_is_named_with_its_line(function, named):
    with pytest.raises(UserError) as error:
        check(function)
    assert str(error.value).startswith("preprocessing_fn pkg.fn uses ")
    assert f"{named} (line {line_of(named)}): a preprocessing_fn is traced once" in str(error.value)
    assert "make random views in feeding" in str(error.value)


@pytest.mark.parametrize(
    ("function", "operation"),
    [("tensorflow_random", "RandomUniform"), ("calls_python", "EagerPyFunc")],
)
def test_an_operation_is_named_with_its_line(function, operation):
    with pytest.raises(UserError, match=rf"{operation} \(line {line_of(operation)}\)"):
        check(function)


@pytest.mark.parametrize("function", ["random_inside_a_branch", "random_flip"])
def test_random_operations_are_found_inside_branches_and_helpers(function):
    with pytest.raises(UserError, match=r"uses the operation Random\w+.*random or keeps state"):
        check(function)


def test_what_differs_between_traces_is_refused():
    with pytest.raises(UserError, match="gives another constant each time it is traced"):
        check("differs_every_time")


@pytest.mark.parametrize(
    "function",
    [
        bad_functions.fixed_projection,
        bad_functions.local_name_random,
        preprocessing.standardize,
        preprocessing.subtract_mean,
        whitening.whiten_zca,
    ],
)
def test_what_is_no_randomness_passes(function):
    assert set(check(function).outputs) == {"image", "label"}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("no_vocabulary", r"pkg\.fn must number the labels by a vocabulary .*'label', .* got none"),
        ("unnamed_vocabulary", r"vocab_filename='label', .* got \['vocab_compute_and_apply"),
        ("misnamed_vocabulary", r"vocab_filename='label', .* got \['classes'\]"),
        ("two_vocabularies", r"must have one vocabulary 'label', got 2"),
        ("unused_vocabulary", r"makes the label output without the vocabulary 'label'"),
        ("vocabulary_with_counts", r"plain list of names, .* store_frequency and file_format"),
        ("compressed_vocabulary", r"plain list of names, .* store_frequency and file_format"),
        ("other_vocabulary", r"by the vocabulary 'classes', but the trainer reads .* 'label'"),
        ("vocabulary_with_buckets", r"by their hash \(num_oov_buckets\).*an unknown label is -1"),
        ("unknown_is_a_class", r"not in the vocabulary the id 0; .*pass default_value=-1"),
    ],
)
def test_a_wrong_vocabulary_is_refused(function, message):
    with pytest.raises(UserError, match=message):
        check(function)


@pytest.mark.parametrize("function", ["renamed_labels", "two_steps", "numbered_in_a_branch"])
def test_every_way_to_number_labels_by_a_vocabulary_is_taken(function):
    check(function)


def test_it_is_checked_before_data_are_read():
    name = "tests.transform.bad_functions.vocabulary_with_buckets"
    with pytest.raises(UserError, match="num_oov_buckets"):
        load_preprocessing_fn(VIEW, TransformOptions(preprocessing_fn=name))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("tests.transform.broken_module.fn", r"its module fails: NameError: .*undefined"),
        ("tests.transform.bad_functions.GENERATOR", r"must name a function, .* of type Generator"),
    ],
)
def test_what_cannot_be_loaded_is_the_users_error(path, message):
    with pytest.raises(UserError, match=message):
        load_preprocessing_fn(VIEW, TransformOptions(preprocessing_fn=path))


# As tf.Transform and TensorFlow write it, cut short.
REPORT = """An error occurred while trying to apply the transformation: "Graph execution error:

Detected at node StringToNumber defined at (most recent call last):
<stack traces unavailable>
StringToNumberOp could not correctly convert string: "cat"
\t [[{{node StringToNumber}}]] [Op:__inference_wrapped_finalized_613]".
          Batch instances: pyarrow.RecordBatch
image: list<item: uint8> [while running 'Analyze']"""


def test_the_sentence_and_the_operation_are_kept():
    found = find_function_error(ValueError(REPORT), "pkg.fn")
    assert str(found) == (
        "preprocessing_fn pkg.fn fails on the data: StringToNumberOp could not correctly convert "
        'string: "cat" (operation StringToNumber); it must take every image, label and column of '
        "the data set."
    )


def test_it_is_found_behind_another_error_and_in_a_traceback():
    outer = RuntimeError("a worker died")
    outer.__cause__ = RuntimeError(f"Traceback (most recent call last):\nValueError: {REPORT}")
    assert "(operation StringToNumber)" in str(find_function_error(outer, "pkg.fn"))


def test_a_message_without_an_operation_keeps_its_last_line():
    report = REPORT.replace(
        "\t [[{{node StringToNumber}}]] [Op:__inference_wrapped_finalized_613]", ""
    )
    assert "fails on the data: StringToNumberOp could" in str(
        find_function_error(ValueError(report), "pkg.fn")
    )


def test_any_other_error_is_left_alone():
    assert find_function_error(ValueError("the disk is full"), "pkg.fn") is None
