"""Class ids, counts, priors and weights."""

import numpy as np
import pytest
import tensorflow_transform as tft
from sklearn.utils.class_weight import compute_class_weight

from image_pipeline.components.transform.preprocessing import standardize
from image_pipeline.components.transform.statistics import read_statistics
from tests.transform.analyze import analyze

pytestmark = pytest.mark.beam

# Ties, a name that is the beginning of another, one beyond ASCII, and records without a class.
COUNTS = {"a": 3, "ab": 3, "b": 5, "d": 5, "Zebra": 3, "straße": 1, "": 4, "two\nlines": 2}
KEPT = {name: count for name, count in COUNTS.items() if name and "\n" not in name}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    labels = [name.encode() for name, count in COUNTS.items() for _ in range(count)]
    np.random.default_rng(3).shuffle(labels)
    images = np.zeros((len(labels), 6, 5, 3), np.uint8)
    folder = tmp_path_factory.mktemp("graph")
    analyze(folder, [(images[:7], labels[:7]), (images[7:], labels[7:])], standardize)
    return str(folder)


def test_counts_are_in_the_order_of_the_vocabulary(folder):
    found = read_statistics(folder)
    vocabulary = tft.TFTransformOutput(folder).vocabulary_by_name("label")
    assert [name.decode() for name in vocabulary] == sorted(KEPT)
    assert found["class_names"].tolist() == vocabulary
    assert found["class_counts"].tolist() == [KEPT[name.decode()] for name in vocabulary]
    assert found["class_counts"].dtype == np.int64


def test_weights_are_scikit_learns_balanced(folder):
    found = read_statistics(folder)
    names = [name.decode() for name in found["class_names"]]
    labels = [name for name, count in KEPT.items() for _ in range(count)]
    expected = compute_class_weight("balanced", classes=np.array(names), y=labels)
    np.testing.assert_allclose(found["class_weights"], expected, rtol=1e-15)
    np.testing.assert_allclose(found["class_priors"], found["class_counts"] / 20, rtol=1e-15)
