import dataclasses

import pytest

from image_pipeline.report.look_alikes import find_look_alikes
from image_pipeline.report.pixels import measure_images
from image_pipeline.report.problems import describe_near_duplicates

pytestmark = pytest.mark.beam


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
