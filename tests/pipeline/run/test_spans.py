"""Which spans a run reads."""

import weakref

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning import listing as listing_module
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.run import run_plan
from image_pipeline.run.run_plan import find_images, survey_source
from tests.drawings import write_folder

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Days 3 and 5 with two classes, and day 8 with a third."""
    folder = tmp_path_factory.mktemp("spans")
    for day, classes, count in ((3, ["cat", "dog"], 2), (5, ["cat", "dog"], 3), (8, ["owl"], 4)):
        write_folder(folder / f"day-{day}", classes, per_class=count)
    return folder


def _find(photos, span=None, window=1):
    source = find_images(f"{photos}/day-{{SPAN}}", span, window)
    return source.span, [folder.span for folder in source.folders]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, (8, [8])),
        ({"window": 2}, (8, [5, 8])),
        ({"window": 9}, (8, [3, 5, 8])),
        ({"window": "all"}, (8, [3, 5, 8])),
        ({"span": "5"}, (5, [5])),
        ({"span": "5", "window": "all"}, (5, [3, 5])),
    ],
    ids=str,
)
def test_the_window_ends_at_the_span_that_is_run(photos, arguments, expected):
    assert _find(photos, **arguments) == expected


def test_a_folder_is_one_source_without_a_span(photos):
    source = find_images(str(photos / "day-3"), None, 1)
    assert (source.span, [folder.path for folder in source.folders]) == (None, [f"{photos}/day-3"])


@pytest.mark.parametrize(
    ("span", "window", "message"),
    [("3", 1, "--span 3 needs spans"), (None, 2, "spans.window=2 needs spans")],
)
def test_a_folder_has_no_spans_to_choose_from(photos, span, window, message):
    with pytest.raises(UserError, match=f"{message}, but --images .* is one folder; give a patt"):
        find_images(str(photos / "day-3"), span, window)


def _survey(pattern, window):
    source = find_images(pattern, None, window)
    return survey_source(source, list_images(source.folders[-1].path, IngestOptions()))


def test_all_folders_are_listed_together_and_each_has_its_fingerprint(photos):
    survey, earlier = _survey(f"{photos}/day-{{SPAN}}", "all")
    assert survey.found == 14
    assert survey.classes == {"cat": 5, "dog": 5, "owl": 4}
    assert list(earlier) == [3, 5]
    alone, none = _survey(f"{photos}/day-8", 1)
    assert (alone.fingerprint, none) == (survey.fingerprint, {})
    assert len({survey.fingerprint, *earlier.values()}) == 3


def test_of_many_folders_some_listings_are_held_at_a_time(photos, monkeypatch):
    made, alive = [], []

    def count(*arguments):
        listing = list_images(*arguments)
        made.append(weakref.ref(listing))
        alive.append(sum(each() is not None for each in made))
        return listing

    monkeypatch.setattr(run_plan, "list_images", count)
    monkeypatch.setattr(listing_module, "_MOST_OFFERED", 1)
    monkeypatch.setattr(listing_module, "_offered", {})
    for day in range(20, 29):
        write_folder(photos / f"night-{day}", per_class=1)
    survey, earlier = _survey(f"{photos}/night-{{SPAN}}", "all")
    assert (survey.found, len(earlier)) == (18, 8)
    assert len(alive) == 8 and max(alive) < 4


def test_an_empty_span_is_an_error(tmp_path):
    (tmp_path / "day-1").mkdir()
    with pytest.raises(UserError, match="day-1' holds no files"):
        _survey(f"{tmp_path}/day-{{SPAN}}", 1)
