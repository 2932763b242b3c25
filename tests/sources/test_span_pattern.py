import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.span_pattern import (
    SpanFolder,
    check_one_source,
    choose_span,
    has_span,
    list_spans,
    match_spans,
    read_span,
)

pytestmark = pytest.mark.unit

# 2026-01-31, as days since 1970-01-01.
DAY = 20484


@pytest.mark.parametrize(
    ("pattern", "folders", "expected"),
    [
        ("day-{SPAN}", ["day-9", "day-10", "day-x", "my-day-1", "day-1-old"], [9, 10]),
        ("a/{SPAN:2}/b", ["a/07/b", "a/7/b", "a/100/b", "a/11/c"], [7]),
        ("{YYYY}-{MM}-{DD}", ["2026-01-31", "1970-01-01", "2026-1-31"], [0, DAY]),
        ("{YYYY}{MM}{DD}", ["20260131"], [DAY]),
        ("{DD}.{MM}.{YYYY}", ["31.01.2026", "31x01x2026"], [DAY]),
        ("a.b/{SPAN}", ["a.b/3", "axb/4"], [3]),
    ],
    ids=str,
)
def test_a_pattern_finds_numbers_in_order(pattern, folders, expected):
    assert [folder.span for folder in match_spans(pattern, folders)] == expected


def test_each_span_is_taken_in_its_highest_version():
    found = match_spans("s{SPAN}/v{VERSION}", ["s1/v2", "s1/v10", "s2/v1", "s2"])
    assert found == [SpanFolder(1, 10, "s1/v10"), SpanFolder(2, 1, "s2/v1")]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 99)), unique=True), st.randoms())
def test_the_order_of_the_folders_does_not_matter(numbers, random):
    folders = [f"s-{span}/{version}" for span, version in numbers]
    found = match_spans("s-{SPAN}/{VERSION}", folders)
    latest = dict(sorted(numbers))  # The last, and so highest, version of each span.
    assert [(each.span, each.version) for each in found] == sorted(latest.items())
    random.shuffle(folders)
    assert match_spans("s-{SPAN}/{VERSION}", folders) == found


@given(st.lists(st.dates(datetime.date(1970, 1, 1)), unique=True, min_size=1))
def test_days_have_the_order_of_the_calendar(days):
    found = match_spans("{YYYY}/{MM}/{DD}", [f"{day:%Y/%m/%d}" for day in days])
    assert [each.path for each in found] == [f"{day:%Y/%m/%d}" for day in sorted(days)]
    assert [each.span for each in found] == [read_span(day.isoformat()) for day in sorted(days)]


def test_two_folders_of_one_span_are_an_error():
    with pytest.raises(UserError, match=r"\['s-07', 's-7'\] are the same span; rename all but"):
        match_spans("s-{SPAN}", ["s-7", "s-07", "s-8"])


def test_a_day_that_does_not_exist_is_an_error():
    with pytest.raises(UserError, match="'2026-02-30' names no date: day is out of range"):
        match_spans("{YYYY}-{MM}-{DD}", ["2026-02-30"])


@pytest.mark.parametrize(
    "pattern",
    [
        "{VERSION}",
        "{SPAN}{SPAN}",
        "{YYYY}{MM}",
        "{SPAN}-{YYYY}{MM}{DD}",
        "{SPAN}{VERSION}{VERSION}",
    ],
)
def test_the_rules_of_tfx_hold(tmp_path, pattern):
    with pytest.raises(UserError, match=r"has either {SPAN} or all of {YYYY}, {MM} and {DD}"):
        list_spans(f"{tmp_path}/{pattern}")


@pytest.mark.parametrize("pattern", ["{SPAN:0}", "{SPAN:x}", "{SPAN:}/{VERSION:-1}", "{SPAN:100}"])
def test_a_width_is_a_number_of_digits(tmp_path, pattern):
    with pytest.raises(UserError, match="mean four digits, got"):
        list_spans(f"{tmp_path}/{pattern}")


def test_only_folders_are_spans_and_a_slash_at_the_end_changes_nothing(tmp_path):
    for name in ("day-1", "day-2", "[x]-1"):
        (tmp_path / name / "cat").mkdir(parents=True)
    (tmp_path / "day-3").write_text("a file")
    expected = [SpanFolder(number, None, f"{tmp_path}/day-{number}") for number in (1, 2)]
    assert list_spans(f"{tmp_path}/day-{{SPAN}}") == expected
    assert list_spans(f"{tmp_path}/day-{{SPAN}}/") == expected
    assert [each.span for each in list_spans(f"{tmp_path}/[x]-{{SPAN}}")] == [1]
    with pytest.raises(UserError, match=r"No folder matches the pattern '.*week-{SPAN}'; give"):
        list_spans(f"{tmp_path}/week-{{SPAN}}")


def test_in_an_object_store_what_files_lie_in_are_the_folders(monkeypatch):
    paths = ["day-1/v/cat/1.png", "day-1/v/dog/2.png", "day-2/v/cat/1.png", "day-3/v", "x/v/1.png"]
    asked = []

    def list_tree(folder):
        asked.append(folder)
        yield from ((path, 1, 0) for path in paths)

    monkeypatch.setattr("image_pipeline.components.files.list_remote_tree", list_tree)
    found = list_spans("gs://bucket/photos/day-{SPAN}/v")
    assert found == [
        SpanFolder(number, None, f"gs://bucket/photos/day-{number}/v") for number in (1, 2)
    ]
    assert asked == ["gs://bucket/photos"]


def test_archives_and_tables_are_spans_by_their_ending(tmp_path, monkeypatch):
    for name in ("day-1.tar", "day-2.csv", "day-3"):
        (tmp_path / name).write_text("a file")
    (tmp_path / "day-4.tar").mkdir()
    found = list_spans(f"{tmp_path}/day-{{SPAN}}.tar")
    assert [(each.span, each.path) for each in found] == [
        (number, f"{tmp_path}/day-{number}.tar") for number in (1, 4)
    ]
    paths = ["day-1.tar", "day-2.csv", "day-4.tar/x", "old/day-5.tar"]
    monkeypatch.setattr(
        "image_pipeline.components.files.list_remote_tree", lambda _: ((p, 1, 0) for p in paths)
    )
    assert [each.span for each in list_spans("gs://bucket/day-{SPAN}.tar")] == [1, 4]


def test_the_latest_is_chosen_or_the_one_that_is_named(tmp_path):
    for name in ("2026-01-30", "2026-01-31"):
        (tmp_path / name).mkdir()
    pattern = f"{tmp_path}/{{YYYY}}-{{MM}}-{{DD}}"
    assert choose_span(pattern).span == choose_span(pattern, "latest").span == DAY
    assert choose_span(pattern, str(DAY - 1)).path == f"{tmp_path}/2026-01-30"
    assert choose_span(pattern, "2026-01-30").span == DAY - 1
    with pytest.raises(UserError, match=r"no span 2026-01-29 of .*nearest of 2 are .*-30, .*-31;"):
        choose_span(pattern, "2026-01-29")
    with pytest.raises(
        UserError, match=r"A span is a number, a date .* got 'newest'; give one of these"
    ):
        choose_span(pattern, "newest")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("photos", False), ("{photos}", False), ("d-{SPAN}", True), ("{YYYY}", True)],
)
def test_a_folder_is_no_pattern(path, expected):
    assert has_span(path) is expected


def test_where_one_source_is_needed_the_latest_is_named(tmp_path):
    for name in ("1.tar", "2.tar", "{SPAN}"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"is a pattern of spans, of which only `run`.*/2\.tar'\."):
        check_one_source(f"{tmp_path}/{{SPAN}}.tar")
    with pytest.raises(UserError, match="No folder matches the pattern"):
        check_one_source(f"{tmp_path}/{{SPAN}}.zip")
    for one in ("2.tar", "none", "{SPAN}"):
        check_one_source(f"{tmp_path}/{one}")
