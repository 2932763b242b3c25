"""The narrowest type that fits all values of a column, and values of that type."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from image_pipeline.components.sources.column_types import (
    TypeGuess,
    convert,
    convert_label,
    feature_value,
)

pytestmark = pytest.mark.unit


def _guess(*values):
    guess = TypeGuess()
    for value in values:
        guess.see(value)
    return guess.type


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "-2", "+3", "0"], "int"),
        (["1", "2.5"], "float"),
        (["1", ""], "float"),
        (["1", "x"], "string"),
        (["2.5", "x", "1"], "string"),
        (["007", "8"], "string"),
        (["1_000"], "string"),
        (["1e5", "nan", "-inf", ".5", "5."], "float"),
        ([str(2**63)], "string"),
        (["12345678901234567890123"], "string"),
        ([10**400], "string"),
        (["1e400"], "string"),
        (["16777216", ""], "float"),
        (["16777217", ""], "string"),
        ([str(-(2**63))], "int"),
        (["", None], "string"),
        ([], "string"),
        ([1, True], "int"),
        ([1, 2.5], "float"),
        ([1, None], "float"),
        ([1, "x"], "string"),
        ([["a"], []], "strings"),
        ([[1], None, [2, 3]], "ints"),
        ([[1], [2.5]], "floats"),
        ([[]], "strings"),
        ([["a", None]], "strings"),
        ([[None]], "strings"),
        ([[1, None]], "floats"),
        ([[2**24 + 1, None]], "strings"),
    ],
)
def test_the_narrowest_type_that_fits(values, type_):
    assert _guess(*values) == type_


@pytest.mark.parametrize("values", [[["a"], "a"], [{"a": 1}], [[[1]]]])
def test_what_fits_no_type(values):
    with pytest.raises(ValueError, match=r"lists|is not a number"):
        _guess(*values)


@pytest.mark.parametrize(
    ("value", "type_", "converted"),
    [
        ("7", "int", 7),
        ("7", "float", 7.0),
        ("7", "string", "7"),
        (7.5, "string", "7.5"),
        ("", "string", ""),
        (None, "string", ""),
        (None, "strings", []),
        ([1, 2], "floats", [1.0, 2.0]),
        ([1, "a"], "strings", ["1", "a"]),
    ],
)
def test_values_of_a_type(value, type_, converted):
    result = convert(value, type_)
    assert result == converted and type(result) is type(converted)


def test_an_empty_number_is_nan():
    assert math.isnan(convert("", "float")) and math.isnan(convert(None, "float"))


@pytest.mark.parametrize(
    ("value", "type_", "message"),
    [
        ("x", "int", "'x' is not an int"),
        ("2.5", "int", "'2.5' is not an int"),
        ("", "int", "it is empty"),
        ("x", "float", "'x' is not a float"),
        ("1e39", "float", "too large for a 32-bit float"),
        ("a", "strings", "'a' is not a list"),
        ([["a"]], "strings", r"\['a'\] is not a string"),
        ({"a": 1}, "string", "{'a': 1} is not a string"),
        ([1, None], "ints", "it is empty"),
    ],
)
def test_what_is_no_value_of_a_type(value, type_, message):
    with pytest.raises(ValueError, match=message):
        convert(value, type_)


@given(st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=4)), min_size=1))
def test_every_value_seen_is_one_of_the_guessed_type(values):
    cells = [str(value) for value in values]
    type_ = _guess(*cells)
    for cell in cells:
        try:
            converted = convert(cell, type_)
        except ValueError as error:
            assert "32-bit" in str(error)
            continue
        assert type(converted).__name__ == {"string": "str"}.get(type_, type_)
        if type_ == "float":
            assert np.isfinite(np.float32(converted)) == np.isfinite(converted)


def test_text_in_records_is_utf8():
    assert feature_value("é") == "é".encode()
    assert feature_value("\udce9") == b"\\udce9"
    assert feature_value(["a", "b"]) == [b"a", b"b"]
    assert feature_value([1, 2]) == [1, 2] and feature_value(1.5) == 1.5


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "2.5"], "float"),
        ([1.0, 2.0, None], "string"),  # as a data frame has whole numbers beside an empty cell
        (["1.0", "2.0"], "string"),
        (["1", ""], "string"),
        (["nan", "inf"], "string"),
        (["2.5", "x"], "string"),
        ([["a"], []], "strings"),
        ([[3, 1]], "strings"),
    ],
)
def test_only_fractions_are_values_and_only_lists_are_tags(values, type_):
    guess = TypeGuess()
    for value in values:
        guess.see(value)
    assert guess.label_type == type_


def test_tags_are_sorted_and_each_is_there_once():
    assert convert_label(["b", "a ", "b", ""], "strings") == ["a", "b"]
    assert convert_label([10, 9], "strings") == ["10", "9"]
    assert convert_label(["a", None], "strings") == ["a"]
    assert convert_label("b|a||b", "strings", "|") == ["a", "b"]
    assert convert_label(None, "strings") == convert_label("", "strings", "|") == []


@pytest.mark.parametrize(
    ("value", "type_", "message"),
    [
        ("a b", "strings", "'a b' is not a list"),
        (["a", "b\nc"], "strings", r"must be on one line, got 'b\\nc'"),
        (None, "float", "it is empty"),
        ("nan", "float", "'nan' is not finite"),
        (math.inf, "float", "inf is not finite"),
    ],
)
def test_labels_that_are_no_tags_and_no_values_are_refused(value, type_, message):
    with pytest.raises(ValueError, match=message):
        convert_label(value, type_)
