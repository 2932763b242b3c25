import re

import numpy as np
import pytest

from image_pipeline.report.charts import draw_channels, draw_curves, draw_histogram
from image_pipeline.report.histogram import make_histogram
from image_pipeline.report.pixels import Channel

pytestmark = pytest.mark.unit


def test_bars_have_the_height_of_their_counts():
    chart = str(draw_histogram(make_histogram(np.array([0, 0, 0, 0, 5, 10, 10]), bins=2), "A & B"))
    assert re.findall(r' height="([\d.]+)"', chart) == ["110.0", "82.5"]
    assert 'aria-label="A &amp; B: 0 to 10, median 0"' in chart
    assert re.findall(r">([^<]+)</text>", chart) == ["0", "median 0", "10"]


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
