"""What `make test` leaves to `make test-all`: most examples of properties, and wide matrices."""

import collections
import itertools
import re

import hypothesis
import pytest


def few() -> int:
    """How many examples of a property of which one takes long."""
    return hypothesis.settings().max_examples // 3


def wide(*values: object) -> object:
    """A row of `parametrize` that only `make test-all` tries."""
    return pytest.param(*values, marks=pytest.mark.wide)


def thin_out(items: list[pytest.Item]) -> None:
    """Marks as wide what is combined more than it need be, where `parametrize` is stacked.

    Of two lists each value is tried, of three and more each pair of values. What is wide anyway
    tries nothing for others; what is marked as whole is left as it is.
    """
    tried: dict[object, set[object]] = collections.defaultdict(set)
    kept = ("wide", "whole")
    places = {item: _places(item) for item in items if not any(map(item.get_closest_marker, kept))}
    for is_new in (lambda own, seen: not own & seen, lambda own, seen: own - seen):
        for item, own in places.items():
            if own and is_new(own, tried[item.function]):
                tried[item.function] |= own
                places[item] = set()
    for item, own in places.items():
        if own:
            item.add_marker(pytest.mark.wide)


def list_unmarked(items: list[pytest.Item]) -> list[str]:
    """The tests that do not say what they are: `unit`, `beam` or `e2e`."""
    kinds = ("unit", "beam", "e2e")
    return sorted(
        {
            item.nodeid.partition("[")[0]
            for item in items
            if not any(map(item.get_closest_marker, kinds))
        }
    )


def _places(item: pytest.Item) -> set[object]:
    """What an item tries of stacked lists: values or pairs of them; of one list alone, nothing.

    A row of several names is one value. Beside stacked lists, those of fixtures count as well.
    """
    marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
    lists = [tuple(re.findall(r"\w+", each) if isinstance(each, str) else each) for each in marks]
    if len(lists) < 2:
        return set()
    params = item.callspec.params
    lists += [(name,) for name in params if name not in itertools.chain(*lists)]
    values = [(names, *(id(params[name]) for name in names)) for names in sorted(lists)]
    return set(itertools.combinations(values, min(len(values) - 1, 2)))
