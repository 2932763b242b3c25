"""What training reported, written and read again."""

import json

import pytest

from image_pipeline.components.training.history import (
    HISTORY_FILE,
    History,
    InputWait,
    read_history,
)

pytestmark = pytest.mark.unit


def make_history(waits, loops):
    return History(
        metrics={"loss": [1.5, float("nan")]},
        steps_per_epoch=4,
        seconds_per_epoch=[2.0, 1.0],
        training_seconds_per_epoch=loops,
        input_wait_seconds_per_epoch=waits,
        unknown_records={"train": 2},
    )


def test_what_is_written_is_read_again_with_none_for_what_is_no_number(tmp_path):
    history = make_history([0.5, 0.25], [1.0, 1.0])
    text = history.to_text()
    assert list(json.loads(text)) == [
        *("metrics", "steps_per_epoch", "seconds_per_epoch", "training_seconds_per_epoch"),
        *("input_wait_seconds_per_epoch", "unknown_records", "softmax_added"),
        *("started_from", "best_epoch", "random_steps", "noticed", "content_sha256"),
    ]
    (tmp_path / HISTORY_FILE).write_text(text)
    read = read_history(str(tmp_path))
    assert read.metrics == {"loss": [1.5, None]}
    assert (read.epochs, read.steps, read.softmax_added) == (2, 8, False)
    assert read.input_wait == history.input_wait == InputWait(0.375, 0.5, 1)


def test_earlier_versions_said_less_and_wrote_bare_nan(tmp_path):
    text = '{"metrics": {"loss": [NaN, -Infinity, 1.0]}, "steps_per_epoch": 1, "more": 1,'
    (tmp_path / HISTORY_FILE).write_text(f'{text} "seconds_per_epoch": [1.0]}}')
    assert read_history(str(tmp_path)) == History(
        metrics={"loss": [None, None, 1.0]}, steps_per_epoch=1, seconds_per_epoch=[1.0]
    )
    assert read_history(str(tmp_path / "gone")) is None


@pytest.mark.parametrize(
    ("waits", "loops"), [(None, [1.0]), ([], []), ([0.0], [0.0])], ids=["devices", "none", "empty"]
)
def test_waiting_that_was_not_measured_is_not_told(waits, loops):
    assert make_history(waits, loops).input_wait is None
