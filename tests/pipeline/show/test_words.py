import math

import pytest

from image_pipeline.show.words import (
    format_bytes,
    format_change,
    format_count,
    format_fact,
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
