"""`benchmarks/end_to_end` in small: its checks pass, and its tables have all that they say."""

import json

import numpy as np
import pytest
from PIL import Image

from benchmarks.documents import write_into
from benchmarks.end_to_end import __main__ as command
from benchmarks.end_to_end import slow_input
from benchmarks.end_to_end.feeds import FEEDS, Job
from benchmarks.end_to_end.measure import measure

pytestmark = [pytest.mark.e2e, pytest.mark.wide]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """20 images of 32 px to train on and 8 to test with, of two classes."""
    folder = tmp_path_factory.mktemp("end_to_end")
    generator = np.random.default_rng(0)
    for split, each in (("train", 10), ("test", 4)):
        for channel, name in enumerate(("blue", "red")):
            (folder / split / name).mkdir(parents=True)
            for number in range(each):
                pixels = generator.integers(0, 120, (32, 32, 3), np.uint8)
                pixels[..., channel] += 120
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")
    return folder


@pytest.mark.parametrize("feed", FEEDS)
def test_each_way_reads_every_file_once_and_is_measured(feed, images, tmp_path):
    job = Job(images, tmp_path, batch_size=10, seed=0, limit=20)
    figures = json.loads(json.dumps(measure(feed, job, 2, 1.0)))
    assert (figures["images"], figures["steps"]) == (20, 2)
    assert (figures["once_s"] > 0) == (feed == "ours")
    assert 0 <= figures["accuracy"] <= 1
    for kind in ("model", "device"):
        for epoch in figures[kind]:
            assert 0 < epoch["wait_s"] < epoch["total_s"]
    lines = command._tabulate({feed: figures}, "model")
    assert len({line.count("|") for line in lines}) == 1
    assert command.NAMES[feed] in lines[-1] and lines[-1].endswith("% |")


def test_a_slow_input_comes_whole_and_in_order_each_way():
    lines = slow_input.run(0.05, 0.02, 4).splitlines()
    assert lines[0] == "4 batches of 0.05 s to prepare and 0.02 s a step; both only wait."
    floors = [float(line.split("|")[2].removesuffix("s ")) for line in lines[4:]]
    # 4 (p + s) one after the other; p + 3 max(p, s) + s; p + 3 max(p / 2, s) + s
    assert floors == pytest.approx([0.28, 0.22, 0.145, 0.145], abs=0.051)


def test_a_table_replaces_the_one_in_the_document(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: measured -->\nold\n<!-- x: end -->\nb\n")
    write_into(page, "x", r"new \1")
    assert page.read_text() == "a\n<!-- x: measured -->\nnew \\1\n<!-- x: end -->\nb\n"
    with pytest.raises(ValueError, match="must have"):
        write_into(page, "y", "new")
