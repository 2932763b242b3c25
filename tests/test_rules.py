import json
import pathlib
import re
import string

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.rules import FEEDING
from image_pipeline.components.meaning.rules import COLUMNS, SOURCE
from image_pipeline.components.options import Options
from image_pipeline.components.rules import Rule, check, find_broken
from image_pipeline.config import RUN

pytestmark = pytest.mark.unit

RULES = (
    Rule(lambda size: size > 3, "size must be 3 at most, got {size}."),
    Rule(
        lambda size, names: [name for name in names if len(name) > size],
        "{found[0]!r} is longer than {size}; {{shorten}} it.",
    ),
)


def test_all_broken_rules_are_said_with_what_they_found():
    said = ["size must be 3 at most, got 4.", "'bobby' is longer than 4; {shorten} it."]
    assert find_broken(RULES, size=4, names=("al", "bobby")) == said
    with pytest.raises(UserError) as error:
        check(RULES, size=4, names=("al", "bobby"))
    assert str(error.value) == "\n".join(said)
    check(RULES, size=3, names=("al",))


def test_a_rule_waits_for_what_is_not_known():
    assert find_broken(RULES, names=("bobby",)) == []
    assert find_broken(RULES, size=9) == ["size must be 3 at most, got 9."]


def test_the_text_of_each_rule_is_in_the_golden():
    golden = pathlib.Path(__file__).parent / "golden" / "results" / "refusals.json"
    texts = "\n".join(line for each in json.loads(golden.read_text()) for line in each["refused"])
    rules = {*RUN, *FEEDING, *SOURCE, *COLUMNS}.union(
        *(kind.rules for kind in _list_kinds(Options))
    )
    assert len(rules) > 40

    def is_said(rule):
        parts = [re.escape(literal) for literal, *_ in string.Formatter().parse(rule.text)]
        return re.search(".*".join(parts), texts)

    assert [rule.text for rule in rules if not is_said(rule)] == []


def _list_kinds(kind):
    for each in kind.__subclasses__():
        yield from (each, *_list_kinds(each))
