import io
import sys
import time

import pytest
from rich.console import Console

from image_pipeline.components import progress
from image_pipeline.components.progress import Progress
from image_pipeline.show import progress as progress_lines
from image_pipeline.show.progress import ComponentProgress, Speed, describe_progress
from image_pipeline.tfx_metadata import ComponentRun

pytestmark = pytest.mark.unit

RUN = ComponentRun("Trainer", 2.5, 1234.0, False, {})


def _console(**options):
    return Console(file=io.StringIO(), width=120, **options)


def _wait_for(console, text):
    """Waits until the text is written; returns all that is."""
    until_s = time.monotonic() + 120
    while text not in console.file.getvalue() and time.monotonic() < until_s:
        time.sleep(0.01)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("now", "done", "seconds", "text"),
    [
        (Progress("images", 2000), 0, 1.0, "0 of 2,000 images"),
        (Progress("images", 2000, 500), 500, 5.0, "500 of 2,000 images, 100/s, 0:15 left"),
        (Progress("steps", 99, 33), 5, 2.0, "33 of 99 steps, 2.5/s, 0:26 left"),
        (Progress("steps", 9000, 10), 10, 10.0, "10 of 9,000 steps, 1.0/s, 2:29:50 left"),
        # A single one says nothing about the rest of many, but enough about that of a few.
        (Progress("records", 363, 1), 1, 104.26, "1 of 363 records, 0.6/min"),
        (Progress("steps", 4, 1), 1, 30.0, "1 of 4 steps, 2.0/min, 1:30 left"),
        (Progress("images", 9, 9, 2), 9, 1.0, "9 of 9 images, 9.0/s, 2 quarantined"),
    ],
)
def test_progress_in_words(now, done, seconds, text):
    assert describe_progress(now, done, seconds) == text


def test_speed_is_measured_from_where_the_work_was_first_seen():
    speed = Speed()
    assert speed.describe(None) == "0 s"
    # A run that goes on has done 50 before: no speed yet.
    assert speed.describe(Progress("steps", 100, done=50)) == "50 of 100 steps"
    assert speed.describe(Progress("steps", 100, done=75)).startswith("75 of 100 steps, ")
    assert speed.describe(Progress("images", 7, done=3)) == "3 of 7 images"


def test_what_takes_long_is_named_before_anything_is_counted(monkeypatch):
    monkeypatch.setattr(progress_lines, "_SLOW_S", 0.0)
    with progress.named("reading train.h5"):
        assert Speed().describe(None) == "0 s; reading train.h5 for 0 s"
    assert Speed().describe(None) == "0 s"


class _Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def _describe(speed, clock, *looks):
    """What is said at each of the moments, at which so many of 363 records are done."""
    told = []
    for clock.now_s, done in looks:
        told.append(speed.describe(Progress("records", 363, done)))
    return told


def test_the_time_before_the_first_count_is_left_out():
    clock = _Clock()
    told = _describe(Speed(clock), clock, (0, 0), (50, 0), (100, 0), (101, 20))
    assert told[:3] == ["0 of 363 records"] * 3
    assert told[3] == "20 of 363 records, 20/s, 0:17 left"


def test_another_piece_of_work_of_the_same_unit_is_measured_anew():
    clock = _Clock()
    speed = Speed(clock)
    _describe(speed, clock, (0, 0), (1, 100), (2, 300))
    clock.now_s = 3
    assert speed.describe(Progress("records", 500, 0)) == "0 of 500 records"
    clock.now_s = 4
    assert speed.describe(Progress("records", 500, 50)) == "50 of 500 records, 50/s, 0:09 left"


def test_an_evaluation_whose_model_is_loaded_after_the_first_record_is_estimated_soon():
    clock = _Clock()
    looks = [(0, 0), (1, 1), (50, 1), (104, 1), (105, 3), (106, 33), (107, 83), (140, 183)]
    told = _describe(Speed(clock), clock, *looks)
    assert not any("left" in each for each in told[:5])
    assert told[-1] == "183 of 363 records, 3.0/s, 0:59 left"


def test_slow_steps_have_a_speed():
    clock = _Clock()
    told = _describe(Speed(clock), clock, *((60 * n, n) for n in range(20)))
    assert told[2:4] == ["2 of 363 records, 1.0/min", "3 of 363 records, 1.0/min"]
    assert told[19] == "19 of 363 records, 1.0/min, 5:44:00 left"


def test_what_libraries_write_is_not_shown_beside_the_bar():
    console = _console(force_terminal=True)
    streams = sys.stdout, sys.stderr
    with ComponentProgress(console) as shown:
        shown.start("Evaluator")
        _wait_for(console, "Evaluator")
        assert (sys.stdout, sys.stderr) == streams


def test_without_a_terminal_lines_are_printed():
    console = _console()
    with ComponentProgress(console, line_every_s=0.01) as shown:
        shown.start("Trainer")
        progress.begin("steps", 8)
        progress.advance(3, bad=1)
        assert "  Trainer           3 of 8 steps, 1 quarantined\n" in _wait_for(console, "3 of 8")
        shown.finish(RUN)
    assert console.file.getvalue().endswith("  Trainer               2.5 s   1,234 MB peak\n")
    assert progress.look() is None


def test_lines_are_seconds_apart():
    console = _console()
    with ComponentProgress(console) as shown:
        shown.start("Trainer")
        progress.begin("steps", 8)
    assert console.file.getvalue() == ""


def test_in_a_terminal_a_bar_is_drawn_and_taken_away():
    console = _console(force_terminal=True)
    with ComponentProgress(console) as shown:
        shown.start("Evaluator")
        progress.begin("images", 8)
        progress.advance(4)
        written = _wait_for(console, "4 of 8 images")
        assert "Evaluator" in written and "━" in written
    # Its line is erased, and the cursor is back.
    assert console.file.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_without_a_console_nothing_is_shown():
    with ComponentProgress(None, line_every_s=0.001) as shown:
        shown.start("Trainer")
        shown.finish(RUN)
