import numpy as np
import pytest

from image_pipeline.report.charts import draw_histogram
from image_pipeline.report.histogram import make_histogram

pytestmark = pytest.mark.unit


def test_a_histogram_counts_every_value_once():
    made = make_histogram(np.array([0, 1, 1, 2, 10]), bins=5)
    assert made.edges == [0, 2, 4, 6, 8, 10]
    assert made.counts == [3, 1, 0, 0, 1]
    assert (made.count, made.min, made.median, made.max) == (5, 0, 1, 10)


def test_a_logarithmic_histogram_has_equal_ratios_and_keeps_the_extremes():
    made = make_histogram(np.array([0.1, 1, 10, 1000]), bins=4, logarithmic=True)
    np.testing.assert_allclose(made.edges, [0.1, 1, 10, 100, 1000])
    assert made.counts == [1, 1, 1, 1]
    values = np.random.default_rng(0).uniform(0.01, 8000, 500)
    assert sum(make_histogram(values, logarithmic=True).counts) == 500


def test_a_histogram_of_one_value_or_none():
    made = make_histogram(np.full(7, 3.0))
    assert made.counts == [7] and made.edges == [3, 3]
    assert make_histogram(np.array([])) is None
    assert str(draw_histogram(made, "Side", "px")) == "<p>all 3 px</p>"
