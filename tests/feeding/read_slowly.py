"""Reads a data set as a slow model would; prints what was planned to be held, and what was.

Run as a program: what other tests have freed in their process would be used again.
"""

import contextlib
import json
import sys
import time

import psutil

from image_pipeline.components.feeding import input_fn as whole
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions

VIEW = ViewOptions(height_px=128, width_px=128)
BATCHES = 8
_QUIET_S = 0.4
PLANNED = []


def resident():
    return psutil.Process().memory_info().rss


def wait_until_full():
    """Waits until nothing more is made ahead; returns how much is resident then."""
    found = resident()
    while True:
        time.sleep(_QUIET_S)
        before, found = found, resident()
        if abs(found - before) < 2**20:
            return found


def read(pattern, graph_dir, batch_size, mode="train", **options):
    """The most that is resident while batches are read."""
    feeding = FeedingOptions(batch_size=batch_size, **options)
    batches = whole.input_fn(
        [pattern], view=VIEW, feeding=feeding, transform_graph_dir=graph_dir, mode=mode, epochs=None
    )
    held = 0
    for _ in batches.take(BATCHES):
        held = max(held, wait_until_full())
    return held


@contextlib.contextmanager
def noting_plans():
    """Has the sum of each plan appended to `PLANNED`."""
    check = whole.budget.check_budget
    whole.budget.check_budget = lambda stages, *rest: (
        PLANNED.append(sum(stage.size_bytes for stage in stages)) or check(stages, *rest)
    )
    yield
    whole.budget.check_budget = check


def main(pattern, graph_dir, batch_size, options):
    read(pattern, graph_dir, 2, **options)  # libraries, and what XLA compiles
    before = resident()
    with noting_plans():
        held = read(pattern, graph_dir, batch_size, **options)
    print(json.dumps({"planned": PLANNED[0], "held": held - before}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
