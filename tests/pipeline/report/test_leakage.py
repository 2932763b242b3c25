import dataclasses

import pytest

from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.leakage import check_leakage
from image_pipeline.report.problems import describe_near_duplicates
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


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
