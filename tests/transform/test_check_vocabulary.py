"""The label's vocabulary is checked before any data are read."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.transform import preprocessing
from image_pipeline.components.transform.check_vocabulary import check_vocabulary
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.transform.run import load_preprocessing_fn
from image_pipeline.components.transform.traced_function import guard, trace
from image_pipeline.components.views.options import ViewOptions
from tests.transform import bad_functions

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=4, width_px=4)


def check(function):
    check_vocabulary(trace(guard(function, "pkg.fn"), input_specs(VIEW)), "pkg.fn")


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
        check(getattr(bad_functions, function))


@pytest.mark.parametrize("function", ["renamed_labels", "two_steps", "numbered_in_a_branch"])
def test_every_way_to_number_labels_by_a_vocabulary_is_taken(function):
    check(getattr(bad_functions, function))


def test_the_projects_own_functions_pass():
    check(preprocessing.standardize)
    check(preprocessing.subtract_mean)


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
