import pytest

from image_pipeline.report.pictures import Pictures
from image_pipeline.report.problems import RejectedFile
from image_pipeline.report.thumbnails import Thumbnails

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def pictures(data, data_dir):
    return Pictures(data, Thumbnails(data, str(data_dir)))


def test_a_record_is_shown_with_all_that_is_known_of_it(pictures, data):
    row = data.find_rows(["dog/side.jpg"])["dog/side.jpg"]
    shown = pictures.of_row(row, prediction="cat (75.0 %)", note="any")
    assert (shown.path, shown.label, shown.prediction) == ("dog/side.jpg", "dog", "cat (75.0 %)")
    assert shown.split == data.splits[data.split[row]] and shown.note == "any"
    assert shown.uri == Thumbnails(data, "").of_row(row) and shown.reason == ""


def test_files_that_became_no_record_are_shown_as_far_as_they_can_be(pictures):
    copy = pictures.of_copy("cat/copy.png", None, None, "another label")
    assert (copy.uri, copy.label, copy.split, copy.note) == (None, "", "", "another label")
    rejected = pictures.of_rejected(RejectedFile("a.png", "is text", 4, None), "not_an_image")
    assert (rejected.uri, rejected.reason, rejected.note) == (None, "not_an_image", "is text")


def test_what_is_stored_of_files_with_the_same_bytes_is_of_its_split(pictures, data):
    row = data.find_rows(["cat/001.png"])["cat/001.png"]
    stored = pictures.of_copy("cat/001.png", "cat", row)
    copy = pictures.of_copy("cat/copy.png", "cat", row)
    other = pictures.of_copy("dog/copy.png", "dog", row, "another label")
    assert stored.split == data.splits[data.split[row]] and copy.split == other.split == ""
    assert [each.names_json for each in (stored, copy, other)] == ['["cat"]', '["cat"]', '["dog"]']
