"""The plan of what is held beside what a process holds."""

import json
import subprocess
import sys

import pytest

from tests import graphs, shards
from tests.feeding import read_slowly

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

VIEW = read_slowly.VIEW
BATCH_SIZE = 256  # 50 MB of floats: much beside what else a process takes meanwhile


@pytest.fixture(scope="module")
def graph_dir(tmp_path_factory):
    size = (VIEW.height_px, VIEW.width_px, VIEW.channels)
    return graphs.write_graph(tmp_path_factory.mktemp("graph"), size)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    examples = shards.make_examples(BATCH_SIZE, image_format="jpeg", height=140, width=140)
    return shards.write_shards(tmp_path_factory.mktemp("data"), examples)


@pytest.mark.parametrize(
    "options", [{}, {"prefetch_batches": 5, "mode": "eval"}], ids=["training", "evaluation"]
)
def test_what_is_held_is_what_was_planned(pattern, graph_dir, options):
    given = [pattern, graph_dir, str(BATCH_SIZE), json.dumps(options)]
    command = [sys.executable, read_slowly.__file__, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["held"] == pytest.approx(found["planned"], rel=0.2)
