import json

import pydantic
import pytest

from image_pipeline.components.meaning.options import IngestOptions

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"label_pattern": "(.+)/.*"}, r"label_pattern must contain \(\?P<label>…\)"),
        ({"group_pattern": "x"}, r"group_pattern must contain \(\?P<group>…\)"),
        (
            {"label_pattern": "(?P<label>[a-z"},
            r"must be a Python regular expression.* at position \d+; for",
        ),
        ({"split_pattern": "(?P<split>*)"}, "split_pattern must be a Python regular expression"),
        (
            {"group_pattern": "(?P<group>a{1,99999999999})"},
            "group_pattern must be a Python regular",
        ),
        ({"splits": {"train": 0.8, "eval": 0.3}}, "must add up to 1"),
        ({"splits": {"train/": 0.5, "eval": 0.5}}, "split names are letters"),
        ({"splits": {"train": 1.0, "eval": 0.0}}, "greater than 0"),
        (
            {"split_names": {"val": "test"}},
            "split_names must map to splits, train, eval, got test",
        ),
        ({"shard_bytes": 0}, "greater than 0"),
        ({"near_duplicates": 9}, "less than or equal to 8"),
        ({"max_bad_fraction": 1.5}, "less than or equal to 1"),
        ({"label_patern": None}, "Extra inputs are not permitted"),
    ],
)
def test_bad_values_are_refused_with_the_rule(values, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        IngestOptions.model_validate(values)


def test_options_cannot_change():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        IngestOptions().seed = 3


def test_threads_are_not_part_of_the_stored_form():
    assert IngestOptions(threads=1).stored_form() == IngestOptions(threads=4).stored_form()
    assert IngestOptions(seed=1).stored_form() != IngestOptions(seed=2).stored_form()


def test_what_is_not_set_of_later_options_is_not_in_what_earlier_runs_are_known_by():
    assert list(json.loads(IngestOptions().to_json()))[:2] == ["prepare", "label_pattern"]
    later = {"columns", "column_types", "root_dir", "bad_rows", "classes"}
    assert not later & IngestOptions().stored_form().keys()
    assert not later & json.loads(IngestOptions().to_json()).keys()
    chosen = IngestOptions(columns={"image": "x"}, classes=("a",))
    assert later & chosen.stored_form().keys() == {"columns", "classes"}
    assert IngestOptions.model_validate_json(chosen.to_json()) == chosen
