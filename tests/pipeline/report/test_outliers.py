import numpy as np
import pytest

from image_pipeline.components.evaluation import facts
from image_pipeline.components.evaluation.facts import write_csv
from image_pipeline.report.evaluation import Outliers, Strange, find_outliers, list_outliers
from image_pipeline.report.pixels import measure_image

pytestmark = pytest.mark.beam


def test_an_image_of_other_colours_is_unlike_the_others(data):
    random = np.random.default_rng(0)
    usual = random.integers(100, 110, (22, 8, 8, 3), dtype=np.uint8)
    measured = [measure_image(row, pixels) for row, pixels in enumerate(usual)]
    measured.append(measure_image(22, np.full((8, 8, 3), (255, 0, 255), np.uint8)))
    found = find_outliers(measured, data)
    ((label, images),) = found.groups
    assert (found.by, found.judged, found.found) == ("colours", 23, 1)
    assert [each.row for each in images] == [22] and label == data.say_label(22)
    assert images[0].times > 10
    assert find_outliers([], data) == Outliers("colours", 0, 0, [])


def test_what_evaluation_found_is_grouped_by_label(data, tmp_path):
    ids = {row: data.index.record_id[row].tobytes().hex() for row in (3, 0, 1)}
    times = {3: 4.0, 0: 3.5, 1: 3.0}
    rows = [("a.png", "eval", "cat", times[row], id_) for row, id_ in ids.items()]
    rows.append(("b.png", "eval", "cat", 2.0, "0" * 32))
    write_csv(str(tmp_path / facts.OUTLIERS), facts.OUTLIER_COLUMNS, rows)
    found = list_outliers(str(tmp_path), facts.Outliers(judged=23, of=23, found=4), data)
    assert (found.by, found.judged, found.found) == ("model", 23, 4)
    assert [label for label, _ in found.groups] == sorted({data.say_label(n) for n in (3, 0, 1)})
    for label, images in found.groups:
        expected = [(n, t) for n, t in ((3, 4.0), (0, 3.5), (1, 3.0)) if data.say_label(n) == label]
        assert images == [Strange(*each) for each in expected]
