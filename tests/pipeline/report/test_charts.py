import re

import numpy as np
import pytest

from image_pipeline.components.evaluation.facts import Bound, Constant
from image_pipeline.components.evaluation.metrics import Estimate
from image_pipeline.report.charts import (
    Channel,
    draw_channels,
    draw_curves,
    draw_histogram,
    draw_score,
    make_histogram,
)
from tests.evaluation.found import FOUND

pytestmark = pytest.mark.unit


def test_bars_have_the_height_of_their_counts():
    chart = str(draw_histogram(make_histogram(np.array([0, 0, 0, 0, 5, 10, 10]), bins=2), "A & B"))
    assert re.findall(r' height="([\d.]+)"', chart) == ["110.0", "82.5"]
    assert 'aria-label="A &amp; B: 0 to 10, median 0"' in chart
    said = ["0", "median 0", "10", "a & B", "up to 4 images in a step"]
    assert re.findall(r">([^<]+)</text>", chart) == [text.replace("&", "&amp;") for text in said]
    assert re.findall("<title>(.*?)</title>", chart) == ["4 images", "3 images"]


def test_a_single_image_among_many_is_to_be_seen_and_an_empty_step_is_not():
    chart = str(draw_histogram(make_histogram(np.array([0] * 5000 + [10]), bins=4), ""))
    assert re.findall(r' height="([\d.]+)"', chart) == ["110.0", "1.0"]


def test_channels_are_lines_of_the_same_scale():
    red, green = np.zeros(256, int), np.zeros(256, int)
    red[255], green[0] = 100, 50
    channels = [
        Channel("red", 255.0, 0.0, red.tolist()),
        Channel("green", 0.0, 0.0, green.tolist()),
    ]
    chart = str(draw_channels(channels))
    lines = dict(re.findall(r'class="channel (\w+)" points="([^"]+)"', chart))
    assert lines["red"].split()[-1] == "320.0,2.0"  # the highest of all
    assert lines["green"].split()[0] == "0.0,55.0"  # half of it
    assert len(lines["red"].split()) == 64
    assert "red mean 255.0, green mean 0.0" in chart


def test_curves_share_their_scale_and_may_have_one_epoch():
    chart = str(draw_curves("loss", [4.0, 2.0], [3.0, 0.0]))
    lines = dict(re.findall(r'class="(\w+)" points="([^"]+)"', chart))
    assert lines == {"train": "52.0,2.0 320.0,55.0", "eval": "52.0,28.5 320.0,108.0"}
    assert "loss over 2 epochs, 0 to 4" in chart
    assert 'circle class="train"' in str(draw_curves("loss", [4.0], None))
    assert 'points="52.0,108.0 320.0,108.0"' in str(draw_curves("loss", [1.0, 1.0], None))


def test_axes_have_names_and_units():
    sizes = make_histogram(np.array([100, 200, 400]), bins=2)
    assert "file size, bytes" in str(draw_histogram(sizes, "File size", "B"))
    assert "width / height" in str(draw_histogram(sizes, "Aspect ratio", axis="width / height"))
    assert "up to 2 records in a step" in str(draw_histogram(sizes, "Any", counted="records"))
    assert ">epoch</text>" in str(draw_curves("loss", [4.0, 2.0], None))
    counts = [3] + [0] * 254 + [1]
    assert "up to 75.0%" in str(draw_channels([Channel("gray", 0.0, 0.0, counts)]))


def test_a_score_is_drawn_to_scale():
    changes = {
        "metrics": {"accuracy": Estimate(0.75, 0.5, 1.0)},
        "constant": Constant(answer="cat", value=0.25),
        "bound": Bound(option="any", threshold=0.5),
    }
    found = FOUND.model_copy(update=changes)
    chart = str(draw_score(found))
    assert '<rect class="interval" x="160.0" y="25" width="160.0"' in chart
    assert 'cx="240.0"' in chart and 'class="always" d="M80.0' in chart
    assert 'class="bound" d="M160.0' in chart and "accuracy 0.750, 0.500 to 1.000" in chart
    assert "always" not in str(draw_score(found.model_copy(update={"constant": None})))


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
