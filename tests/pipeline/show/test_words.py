import math

import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.show.words import (
    describe_steps,
    format_bytes,
    format_change,
    format_classes,
    format_constant_channels,
    format_count,
    format_fact,
    format_numbers,
    format_range,
    format_seconds,
    format_share,
    format_value,
    make_breakable,
)

pytestmark = pytest.mark.unit


def test_numbers_as_people_read_them():
    assert [format_value(value) for value in (0, 3.0, 0.12345, 12.345, 123456.7)] == [
        *("0", "3", "0.123", "12.3", "123,457")
    ]
    assert format_value(375, "px") == "375 px" and format_value(1500, "B") == "1.5 kB"
    assert [format_bytes(size) for size in (0, 999, 1500, 12e6, 3e9, 4e15)] == [
        *("0 B", "999 B", "1.5 kB", "12.0 MB", "3.0 GB", "4,000.0 TB")
    ]
    assert format_share(0.12345) == "12.3 %"
    assert [format_seconds(seconds) for seconds in (2.34, 125, 3725)] == [
        *("2.3 s", "2 min 5 s", "1 h 2 min")
    ]
    assert format_range("1", "1") == "1" and format_range("1", "2") == "1 to 2"
    assert [format_value(value) for value in (None, math.nan, -math.inf)] == ["—", "nan", "-inf"]
    facts = [format_fact(fact) for fact in (None, True, False, 1200, 0.123456, [1], "a")]
    assert facts == ["—", "yes", "no", "1,200", "0.12346", "[1]", "a"]
    assert (format_change(5), format_change(-0.25)) == ("+5", "-0.25")


def test_one_is_no_plural():
    assert [format_count(count, "epoch") for count in (0, 1, 1200)] == [
        *("0 epochs", "1 epoch", "1,200 epochs")
    ]
    assert format_count(1, "more class") == "1 more class"
    assert format_count(2, "more class") == "2 more classes"


def test_names_break_after_their_marks_and_are_escaped():
    assert make_breakable("a_b/<i>") == "a_<wbr>b/<wbr>&lt;i&gt;"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234, "1,234"),
        (0.12345, "0.1235"),
        ([1.5, 2], "1.5000, 2.0000"),
        (list(range(9)), "9 values"),
        ([[1.0], [2.0]], "2 values"),
    ],
)
def test_a_statistic_takes_a_few_words(value, text):
    assert format_numbers(value) == text


def test_classes_are_told_by_the_ends_of_their_list():
    classes = [{"name": f"c{n}", "records": 3000 - n} for n in range(1000)]
    assert format_classes(classes) == "1,000, most c0 (3,000), fewest c999 (2,001)"


def test_constant_channels_come_with_their_rule():
    text = "0, 2: one value everywhere, so divided by 1 (std 1)"
    assert format_constant_channels([0, 2]) == text


def test_steps_are_described_by_their_options():
    steps = ["flip_horizontal", {"op": "gaussian_blur", "probability": 1.0}]
    own = {"op": "mine.steps.fade", "arguments": {"by": 3}}
    feeding = FeedingOptions(augment=[*steps, own])
    assert describe_steps(feeding.augment) == [
        "flip_horizontal probability 0.5",
        "gaussian_blur sigma_px 0.1 to 2, probability 1",
        "mine.steps.fade by 3",
    ]
    assert describe_steps(()) == ["no random steps"]
