"""YAML that is ambiguous, or that PyYAML would answer with a crash, a hang or no word."""

import contextlib

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from image_pipeline.yaml_text import parse_yaml

pytestmark = pytest.mark.unit


def refuse(text: str) -> tuple[str, int]:
    """The problem that is named, and its line."""
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        parse_yaml(text)
    return caught.value.problem, caught.value.problem_mark.line + 1


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "a: 1\nb: 2\n'a': 3", "{a: 1,\nb: 2,\na: 3}"])
def test_a_key_given_twice_is_refused_with_both_lines(text):
    assert refuse(text) == ("the key 'a' is given twice, first in line 1", 3)


def test_a_key_given_twice_in_a_group_is_refused():
    assert refuse("x:\n  a: 1\n  a: 2") == ("the key 'a' is given twice, first in line 2", 3)


def test_what_a_merge_brings_may_be_overridden_as_often_as_it_is_merged():
    text = "base: &base {a: 1, b: 2}\nx: &x {<<: *base, a: 3}\ny: {<<: *x, b: 4}\nz: {<<: *x}"
    x = {"a": 3, "b": 2}
    assert parse_yaml(text) == {"base": {"a": 1, "b": 2}, "x": x, "y": {"a": 3, "b": 4}, "z": x}


def test_of_several_that_are_merged_the_first_counts():
    text = "one: &one {width: 1}\ntwo: &two {width: 2, height: 2}\nx: {<<: [*one, *two]}"
    assert parse_yaml(text)["x"] == {"width": 1, "height": 2}


@pytest.mark.parametrize("text", ["[" * 50_000, "- " * 50_000, "? " * 50_000, "{a: " * 50_000])
def test_what_is_nested_deeply_is_refused_where_it_begins_to_be(text):
    assert refuse(text) == ("values are nested more than 50 deep", 1)


def test_fifty_levels_are_read():
    assert parse_yaml("[" * 49 + "x" + "]" * 49) is not None
    assert refuse("[" * 50 + "x" + "]" * 50)[0] == "values are nested more than 50 deep"


def test_aliases_count_as_what_they_stand_for():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    lines += [f"{new}: &{new} [{','.join(['*' + old] * 9)}]" for old, new in pairs]
    problem, line = refuse("\n".join(lines))
    assert problem == "there are more than 1,000,000 values, those of aliases included"
    assert line == 7  # 9 ** 6 values are some 600,000.
    assert len(parse_yaml("\n".join(lines[:6]))["f"]) == 9


def test_aliases_deepen_what_they_stand_in():
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000))]
    assert refuse("\n".join(lines)) == ("values are nested more than 50 deep", 50)


def test_an_alias_of_what_it_is_in_is_refused():
    assert refuse("x: &a\n- *a") == ("an alias of a value that contains it", 2)


@pytest.mark.parametrize("digits", ["9" * 5000, "0x" + "f" * 5000, ":".join(["1"] * 5000)])
def test_a_number_that_cannot_be_printed_is_refused(digits):
    assert refuse(f"x:\n  seed: {digits}") == ("a number of more than 100 digits", 2)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2026-13-45", "'2026-13-45' is not a valid timestamp"),
        ("!!timestamp x", "'x' is not a valid timestamp"),
        ("!!int x", "'x' is not a valid number"),
        ("!!bool maybe", "'maybe' is not a valid true or false"),
        (r'"\ud800"', r"'\ud800' is not a valid text"),
    ],
)
def test_a_value_that_is_not_what_it_looks_like_is_refused(value, problem):
    assert refuse(f"a: 1\nb: {value}") == (problem, 2)


def test_a_long_document_is_refused():
    with pytest.raises(yaml.YAMLError, match="longer than 16,777,216 characters"):
        parse_yaml("x" * (2**24 + 1))


@hypothesis.given(st.text(st.sampled_from("ab:&*<!{}[]-?|>'\"\\#%@\n\t ,x0\ud800é"), max_size=40))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(yaml.YAMLError):
        parse_yaml(text)


@pytest.mark.parametrize("text", [r'a: "\U00110000"', r'a: "\UFFFFFFFF"', r'"\U00110000": 1'])
def test_an_escape_of_no_character_is_refused(text):
    with pytest.raises(yaml.YAMLError, match="escapes a character that does not exist"):
        parse_yaml(text)
