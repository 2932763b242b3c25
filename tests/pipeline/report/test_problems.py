import numpy as np
import pytest

from image_pipeline.report.problems import (
    describe_duplicates,
    describe_near_duplicates,
    describe_quarantine,
)
from tests.drawings import draw

pytestmark = pytest.mark.beam


def test_quarantine_names_the_files(data_dir, source):
    quarantine = describe_quarantine(str(data_dir), source.manifest.books.quarantine_reasons)
    assert quarantine.total == 2
    files = {row.name: row.files for row in quarantine.reasons}
    assert [file.path for file in files["not_an_image"]] == ["cat/<b>.png"]
    assert files["not_an_image"][0].bytes == 4
    assert [file.path for file in files["truncated"]] == ["dog/cut.jpg"]


def test_duplicates_and_conflicting_labels(data_dir, data):
    duplicates = describe_duplicates(str(data_dir), data)
    counts = [duplicates.groups, duplicates.files, duplicates.conflicts]
    assert counts == [2, 2, 1]
    (conflict,) = duplicates.conflicting
    assert (conflict.path, conflict.label, conflict.size) == ("cat/000.png", "cat", 2)
    assert conflict.copies == [("dog/copy.png", "dog")]
    np.testing.assert_array_equal(data.read_pixels(conflict.row), draw(0))
    assert [group.path for group in duplicates.largest] == ["cat/001.png", "cat/000.png"]


def test_near_duplicates(data_dir, data):
    near = describe_near_duplicates(str(data_dir), data)
    assert (near.groups, near.images, near.straddling, near.compared) == (1, 2, 0, None)
    members = near.largest[0].members
    assert [each.path for each in members] == ["cat/smooth.png", "dog/smooth.png"]
    assert [data.name_source(each.row) for each in members] == [each.path for each in members]
    assert {each.split for each in members} == {data.splits[data.split[members[0].row]]}
