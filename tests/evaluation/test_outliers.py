import numpy as np
import pytest

from image_pipeline.components.evaluation.unusual import find_outliers, measure_distances

pytestmark = pytest.mark.e2e


def test_the_distance_is_the_mean_to_the_five_nearest_others():
    vectors = np.array([[0], [1], [2], [3], [4], [5], [100]], np.float32)
    distances = measure_distances(vectors)
    assert distances[0] == (1 + 2 + 3 + 4 + 5) / 5
    assert distances[2] == (1 + 1 + 2 + 2 + 3) / 5
    assert distances[6] == (95 + 96 + 97 + 98 + 99) / 5


def test_planted_outliers_are_found_the_farthest_first():
    vectors = np.random.default_rng(0).normal(size=(500, 8))
    vectors[7] += 40
    vectors[11] -= 80
    found = find_outliers(vectors)
    assert [each.row for each in found] == [11, 7]
    distances = measure_distances(vectors)
    assert found[0].times == round(distances[11] / np.median(distances), 2) > 10


def test_the_order_of_rows_changes_nothing():
    vectors = np.random.default_rng(1).standard_t(2, size=(300, 4))
    order = np.random.default_rng(2).permutation(300)
    found, again = find_outliers(vectors), find_outliers(vectors[order])
    assert found and {each.row for each in found} == {int(order[each.row]) for each in again}


def test_few_images_and_images_that_are_all_the_same_have_none():
    assert find_outliers(np.eye(9)) == []
    assert find_outliers(np.zeros((50, 3))) == []
    assert find_outliers(np.concatenate([np.zeros((49, 3)), np.ones((1, 3))])) == []
