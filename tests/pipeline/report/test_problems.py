import dataclasses

import numpy as np
import pytest

from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.pixels import measure_images
from image_pipeline.report.problems import (
    Alike,
    Member,
    check_leakage,
    describe_duplicates,
    describe_near_duplicates,
    describe_quarantine,
    find_look_alikes,
)
from tests.drawings import draw
from tests.ingest_runs import ingest

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
    row = conflict.members[0].row
    files = [("cat/000.png", "cat"), ("dog/copy.png", "dog")]
    assert conflict == Alike(2, [Member(path, label, "", row) for path, label in files])
    np.testing.assert_array_equal(data.read_pixels(row), draw(0))
    assert [group.members[0].path for group in duplicates.largest] == ["cat/001.png", "cat/000.png"]


def test_near_duplicates(data_dir, data):
    near = describe_near_duplicates(str(data_dir), data)
    assert (near.groups, near.images, near.straddling, near.compared) == (1, 2, 0, None)
    members = near.largest[0].members
    assert [each.path for each in members] == ["cat/smooth.png", "dog/smooth.png"]
    assert [data.name_source(each.row) for each in members] == [each.path for each in members]
    assert {each.split for each in members} == {data.splits[data.split[members[0].row]]}


def test_the_measured_images_are_grouped_as_ingest_groups_them(data, data_dir):
    measured = [each for each in measure_images(data) if each is not None]
    found = find_look_alikes(measured, data)
    of_ingest = describe_near_duplicates(str(data_dir), data)
    assert (found.groups, found.images, found.compared) == (1, 2, 23)
    assert sorted(found.largest[0].members, key=lambda each: each.path) == (
        of_ingest.largest[0].members
    )
    assert found.straddling == 0
    split = data.split.copy()
    split[found.largest[0].members[0].row] ^= 1
    assert find_look_alikes(measured, dataclasses.replace(data, split=split)).straddling == 1


def test_without_images_there_are_none(data):
    found = find_look_alikes([], data)
    assert (found.groups, found.images, found.largest, found.compared) == (0, 0, [], 0)


def test_nothing_leaks_by_default_and_what_was_not_looked_for_is_said(data_dir, source, data):
    alike = describe_near_duplicates(str(data_dir), data)
    checks = {
        each.name: each for each in check_leakage(str(data_dir), source.manifest, data, alike)
    }
    found = {name: each.found for name, each in checks.items()}
    assert found == {
        "identical files": 0,
        "look-alikes": 0,
        "groups": None,
        "units that paths separate": 0,
    }
    assert "ingest.group_pattern" in checks["groups"].note
    among = dataclasses.replace(alike, straddling=1, compared=23)
    look_alikes = check_leakage(str(data_dir), source.manifest, data, among)[1]
    assert look_alikes.found == 1 and "among 23 images; " in look_alikes.note
    assert "near_duplicates=4" in look_alikes.note


def test_what_a_path_parts_is_leakage(images_dir, tmp_path):
    folder = tmp_path / "data"
    manifest = ingest(
        images_dir,
        folder,
        near_duplicates=4,
        duplicates="keep_all",
        conflicting_labels="keep",
        max_bad_fraction=0.5,
        # Cats train, dogs evaluate; the two of the same name are one group.
        split_pattern="(?P<split>[^/]+)/.+",
        group_pattern=".+/(?P<group>smooth)",
        splits={"cat": 0.5, "dog": 0.5},
    )
    data = open_data_set(str(folder), manifest)
    alike = describe_near_duplicates(str(folder), data)
    found = [each.found for each in check_leakage(str(folder), manifest, data, alike)]
    # Of copies, all go with the first; look-alikes go where their paths say, and so do groups.
    assert found == [0, 1, 1, 1]
    # Had a copy been stored elsewhere, it would be found.
    rows = data.find_rows(["dog/copy.png"])
    split = data.split.copy()
    split[rows["dog/copy.png"]] ^= 1
    moved = dataclasses.replace(data, split=split)
    assert check_leakage(str(folder), manifest, moved, alike)[0].found == 1
