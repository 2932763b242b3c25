import numpy as np
import pytest

from image_pipeline.components.evaluation.unusual import (
    cross_validate,
    find_judged,
    find_likelier,
    find_suspects,
)

pytestmark = pytest.mark.unit


def make_clusters(records, classes=4, flipped=20, seed=0):
    """Classes at the corners of a cube, and some records with another class's label."""
    random = np.random.default_rng(seed)
    true = np.arange(records) % classes
    embeddings = 8 * np.eye(classes, 8)[true] + random.normal(size=(records, 8))
    labels = true.copy()
    wrong = random.choice(records, flipped, replace=False)
    labels[wrong] = (labels[wrong] + random.integers(1, classes, flipped)) % classes
    keys = random.integers(0, 2**63, records).astype(np.uint64)
    return embeddings.astype(np.float32), labels, keys, true, set(wrong.tolist())


def test_planted_errors_are_found():
    embeddings, labels, keys, true, wrong = make_clusters(400)
    suspects, judged, agreed = find_suspects(embeddings, labels, keys)
    assert judged == 400 and agreed == 0.95
    # Precision and recall are the same at as many as were planted.
    first = suspects[: len(wrong)]
    assert len({each.row for each in first} & wrong) >= 17
    right = [each.likelier == true[each.row] for each in first if each.row in wrong]
    assert sum(right) == len(right)
    scores = [each.score for each in suspects]
    assert scores == sorted(scores)
    assert all(each.score < each.likelier_score for each in first)


def test_the_same_records_give_the_same_suspects_whatever_their_order():
    embeddings, labels, keys, _, _ = make_clusters(200)
    suspects, *_ = find_suspects(embeddings, labels, keys)
    assert suspects == find_suspects(embeddings, labels, keys)[0]
    order = np.random.default_rng(2).permutation(200)
    others, *_ = find_suspects(embeddings[order], labels[order], keys[order])
    assert {int(order[each.row]) for each in others} == {each.row for each in suspects}


def test_no_record_is_judged_by_a_model_that_has_seen_it():
    """Labels without any rule cannot be learned, however many dimensions there are."""
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(200, 150)), np.arange(200) % 2
    probabilities = cross_validate(features, labels, np.arange(200) // 2 % 5)
    assert abs((probabilities.argmax(axis=1) == labels).mean() - 0.5) < 0.15


def test_a_record_counts_for_a_class_that_is_as_likely_as_it_usually_is():
    probabilities = np.array(
        [[0.9, 0.1], [0.7, 0.3], [0.1, 0.9], [0.4, 0.6], [0.25, 0.75], [0.35, 0.65]]
    )
    labels = np.array([0, 0, 0, 1, 1, 1])
    # Usual: (0.9 + 0.7 + 0.1) / 3 for the first class, (0.6 + 0.75 + 0.65) / 3 for the second.
    assert find_likelier(probabilities, labels).tolist() == [-1, -1, 1, -1, -1, -1]


def test_classes_that_a_fold_could_not_learn_are_not_judged():
    labels = np.array([0] * 5 + [1] * 4 + [2] * 5)
    keys = np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 7, 7, 7, 7, 7], np.uint64)
    assert find_judged(labels, keys).tolist() == [True] * 5 + [False] * 9
    assert find_suspects(np.zeros((14, 2), np.float32), labels, keys) == ([], 0, 0.0)
