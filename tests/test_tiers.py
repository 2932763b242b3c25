"""What `make test` leaves out of stacked lists: no value, of three lists and more no pair."""

import itertools
from types import SimpleNamespace

import hypothesis
import pytest

from tests.tiers import few, list_unmarked, thin_out, wide

pytestmark = pytest.mark.unit


class Item:
    """A test of one function, as far as it is looked at."""

    def __init__(self, marks, params):
        self.marks, self.params = [each.mark for each in marks], params
        self.function, self.nodeid = Item, "test_it"
        self.callspec = SimpleNamespace(params=params)

    def iter_markers(self, name):
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name):
        return next(self.iter_markers(name), None)

    def add_marker(self, mark):
        self.marks.append(mark.mark)


def collect(lists, **fixtures):
    """All combinations of the rows of lists, by their names, and of the values of fixtures."""
    stacked = [pytest.mark.parametrize(names, rows) for names, rows in lists.items()]
    fixed = {(name,): [pytest.param(value) for value in fixtures[name]] for name in fixtures}
    named = {tuple(names.split(", ")): rows for names, rows in lists.items()} | fixed
    for rows in itertools.product(*named.values()):
        params = {}
        for names, row in zip(named, rows, strict=True):
            params |= zip(names, row.values, strict=True)
        yield Item([*stacked, *itertools.chain(*(row.marks for row in rows))], params)


def rows_of(*values):
    return [pytest.param(*(each if isinstance(each, tuple) else (each,))) for each in values]


def kept(lists, **fixtures):
    """What of it is left, a tuple of all values each."""
    items = list(collect(lists, **fixtures))
    thin_out(items)
    return [tuple(item.params.values()) for item in items if not item.get_closest_marker("wide")]


def test_one_list_stays_as_it_is_with_its_fixture():
    assert len(kept({"a": rows_of(1, 2, 3)}, b="xy")) == 6


def test_of_two_lists_each_value_is_tried_and_as_few_as_can_be():
    assert kept({"a": rows_of(1, 2, 3), "b": rows_of("x", "y")}) == [(1, "x"), (2, "y"), (3, "x")]


def test_of_three_lists_each_pair_is_tried():
    tried = kept({"a": rows_of(1, 2), "b": rows_of(None, True), "c": rows_of("x", "y", "z")})
    assert len(tried) < 12
    for one, other in itertools.combinations(range(3), 2):
        pairs = {(values[one], values[other]) for values in tried}
        assert len(pairs) == (4 if (one, other) == (0, 1) else 6)


def test_rows_that_begin_alike_are_each_tried():
    rows = rows_of(("run", 1), ("run", 2), ("run", 3))
    assert {values[:2] for values in kept({"a, b": rows, "c": rows_of("x", "y")})} == {
        ("run", 1),
        ("run", 2),
        ("run", 3),
    }


def test_the_values_of_a_fixture_are_each_tried():
    tried = kept({"a": rows_of(1, 2), "b": rows_of(3, 4)}, name="xyz")
    assert {name for _, _, name in tried} == {"x", "y", "z"}


def test_a_wide_row_does_not_stand_for_others():
    tried = kept({"a": [wide(1), *rows_of(2, 3)], "b": rows_of("x", "y", "z")})
    assert {b for _, b in tried} == {"x", "y", "z"} and {a for a, _ in tried} == {2, 3}


def test_what_is_whole_stays_so():
    items = list(collect({"a": rows_of(1, 2, 3), "b": rows_of("x", "y")}))
    for item in items:
        item.add_marker(pytest.mark.whole)
    thin_out(items)
    assert not any(item.get_closest_marker("wide") for item in items)


def test_a_test_without_a_kind_is_named():
    marked = [Item([getattr(pytest.mark, kind)], {}) for kind in ("unit", "beam", "e2e")]
    assert list_unmarked([*marked, Item([pytest.mark.wide], {})]) == ["test_it"]


def test_few_examples_are_a_third_of_those_of_the_tier():
    assert few() == hypothesis.settings().max_examples // 3
