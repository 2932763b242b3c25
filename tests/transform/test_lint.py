"""Randomness in a preprocessing_fn is refused, and the message names it and its line."""

import pathlib

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.transform import preprocessing, whitening
from image_pipeline.components.transform.lint import check_random
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.views.options import ViewOptions
from tests.transform import bad_functions

pytestmark = pytest.mark.unit

SPECS = input_specs(ViewOptions(height_px=4, width_px=4))


def line_of(comment):
    lines = pathlib.Path(bad_functions.__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.endswith(f"# {comment}"))


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
        check_random(getattr(bad_functions, function), f"pkg.{function}", SPECS)
    expected = f"preprocessing_fn pkg.{function} uses "
    assert str(error.value).startswith(expected)
    assert f"{named} (line {line_of(named)}): a preprocessing_fn is traced once" in str(error.value)
    assert "make random views in feeding" in str(error.value)


@pytest.mark.parametrize(
    ("function", "operation"),
    [("tensorflow_random", "RandomUniform"), ("calls_python", "EagerPyFunc")],
)
def test_an_operation_is_named_with_its_line(function, operation):
    with pytest.raises(UserError, match=rf"{operation} \(line {line_of(operation)}\)"):
        check_random(getattr(bad_functions, function), "pkg.fn", SPECS)


@pytest.mark.parametrize("function", ["random_inside_a_branch", "random_flip"])
def test_random_operations_are_found_inside_branches_and_helpers(function):
    with pytest.raises(UserError, match=r"uses the operation Random\w+.*random or keeps state"):
        check_random(getattr(bad_functions, function), "pkg.fn", SPECS)


def test_what_differs_between_traces_is_refused():
    with pytest.raises(UserError, match="gives another constant each time it is traced"):
        check_random(bad_functions.differs_every_time, "pkg.fn", SPECS)


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
    assert set(check_random(function, "pkg.fn", SPECS).outputs) == {"image", "label"}
