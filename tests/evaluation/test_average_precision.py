"""COCO's average precision against the same written down again, box by box."""

import numpy as np
import pytest

from image_pipeline.components.evaluation.average_precision import (
    IOUS,
    average_precisions,
    join_found,
    match_boxes,
)

pytestmark = pytest.mark.unit


def iou(one, other, is_crowd):
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    both = max(height, 0) * max(width, 0)
    own, others = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return both / (own if is_crowd else own + others - both)


def evaluate_by_hand(images, id_, least):
    """COCO's `evaluateImg` and `accumulate` for one class and overlap, with plain loops."""
    judged, positives = [], 0
    for true, found in images:
        # As there, those that do not count are tried last.
        true = sorted((box for box in true if box[4] == id_), key=lambda box: box[5])
        positives += sum(box[5] == 0 for box in true)
        taken = set()
        for box in sorted((box for box in found if box[4] == id_), key=lambda box: -box[5]):
            best, chosen = least, None
            for number, other in enumerate(true):
                is_crowd = other[5] == 1
                if number in taken and not is_crowd:
                    continue
                if chosen is not None and true[chosen][5] == 0 and is_crowd:
                    break
                if (overlap := iou(box, other, is_crowd)) >= best:
                    best, chosen = overlap, number
            if chosen is not None:
                taken.add(chosen)
            judged.append((box[5], chosen is not None, chosen is not None and true[chosen][5] == 1))
    judged = [each for each in sorted(judged, key=lambda each: -each[0]) if not each[2]]
    if not positives:
        return np.nan
    points, hits = [], 0
    for number, (_, is_right, _) in enumerate(judged, 1):
        hits += is_right
        points.append((hits / positives, hits / number))
    reached = [
        max((precision for recall, precision in points if recall >= asked), default=0)
        for asked in np.linspace(0, 1, 101)
    ]
    return np.mean(reached)


def draw_images(seed, count=12):
    """True boxes, some of them crowds, and found ones that are near them or anywhere."""
    draws = np.random.default_rng(seed)

    def draw_box():
        top, left = draws.uniform(0, 0.7, 2)
        high, wide = draws.uniform(0.1, 0.3, 2)
        return [top, left, top + high, left + wide, int(draws.integers(3))]

    images = []
    for _ in range(count):
        true = [[*draw_box(), int(draws.random() < 0.2)] for _ in range(draws.integers(0, 6))]
        near = [
            [*(np.array(box[:4]) + draws.normal(0, 0.02, 4)), box[4], draws.random()]
            for box in [*true, *true]
            if draws.random() < 0.8
        ]
        anywhere = [[*draw_box(), draws.random()] for _ in range(draws.integers(0, 4))]
        images.append((true, near + anywhere))
    return images


def collect(images):
    parts = {}
    for true, found in images:
        for id_, each in match_boxes(np.array(true), np.array(found)).items():
            parts.setdefault(id_, []).append(each)
    return {id_: average_precisions(join_found(each)) for id_, each in parts.items()}


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_coco_computes(seed):
    images = draw_images(seed)
    found = collect(images)
    assert set(found) == {0, 1, 2}
    for id_, precisions in found.items():
        expected = [evaluate_by_hand(images, id_, least) for least in IOUS]
        np.testing.assert_allclose(precisions, expected, atol=1e-12)
        assert 0 < np.mean(precisions) < 1


def one(top, left, bottom, right, id_, last):
    return [top, left, bottom, right, id_, last]


WHOLE = one(0, 0, 1, 1, 0, 0)


def test_a_box_is_right_up_to_the_overlap_that_it_has():
    # Three quarters of the whole.
    (own,) = collect([([WHOLE], [one(0, 0, 0.75, 1, 0, 0.9)])]).values()
    np.testing.assert_array_equal(own, [1, 1, 1, 1, 1, 1, 0, 0, 0, 0])


def test_a_second_box_of_the_same_object_is_wrong():
    twice = [one(0, 0, 1, 1, 0, 0.9), one(0, 0, 1, 1, 0, 0.8)]
    far = [one(0, 0, 1, 1, 0, 0.7)]
    (own,) = collect([([WHOLE], twice), ([WHOLE], far)]).values()
    # Right, wrong, right: precision 1 up to recall 1/2, then 2/3.
    np.testing.assert_allclose(own, (51 + 50 * 2 / 3) / 101)


def test_what_lies_in_a_crowd_is_neither_right_nor_wrong():
    crowd = one(0, 0, 1, 1, 0, 1)
    small = one(0.1, 0.1, 0.2, 0.2, 0, 0.95)
    (own,) = collect([([crowd], [small]), ([WHOLE], [one(0, 0, 1, 1, 0, 0.9)])]).values()
    np.testing.assert_array_equal(own, 1)


def test_a_class_without_true_boxes_has_none_and_one_that_is_not_found_has_zero():
    found = collect([([WHOLE], [one(0, 0, 1, 1, 1, 0.9), one(0, 0, 0, 0, -1, 0)])])
    assert np.isnan(found[1]).all() and (found[0] == 0).all() and set(found) == {0, 1}


def test_images_without_any_box_say_nothing():
    assert match_boxes(np.zeros((0, 6)), np.zeros((0, 6))) == {}


def test_equal_scores_give_the_same_figure_in_any_order():
    images = [([WHOLE], [one(0, 0, 1, 1, 0, 1.0)]), ([], [one(0, 0, 1, 1, 0, 1.0)])] * 3
    (some,), (others,) = collect(images).values(), collect(images[::-1]).values()
    np.testing.assert_array_equal(some, others)
    np.testing.assert_allclose(some, 0.5)
