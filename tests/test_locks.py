"""One run at a time writes to a folder, and a dead one stands in nobody's way."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from image_pipeline.components import locks
from image_pipeline.components.errors import UserError
from image_pipeline.components.locks import LOCK, hold_lock

pytestmark = pytest.mark.unit

_HOLD = """
import signal, sys, time
from image_pipeline.components.locks import hold_lock
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell may have had it ignored.
with hold_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_run_is_told_who_is_there(tmp_path, other):
    message = rf"Another run \(process {other.pid} on .+, since \d{{4}}-.*\) is writing to"
    with pytest.raises(UserError, match=message), hold_lock(str(tmp_path)):
        pass
    assert other.poll() is None


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_dead_runs_lock_is_taken_over(tmp_path, other, sent):
    other.send_signal(sent)
    other.wait()
    with hold_lock(str(tmp_path)):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK).exists()


def test_two_threads_exclude_one_another_too(tmp_path):
    with hold_lock(str(tmp_path)):
        with pytest.raises(UserError, match=f"process {os.getpid()} on"), hold_lock(str(tmp_path)):
            pass
        with pytest.raises(UserError), hold_lock(str(tmp_path)):  # Refused, it left the lock.
            pass
    with hold_lock(str(tmp_path)):
        pass


def _write_holder(folder, age_s=0, **changes):
    holder = dataclasses.asdict(locks._this_process()) | changes
    (folder / LOCK).write_text(json.dumps(holder))
    moment = (folder / LOCK).stat().st_mtime - age_s
    os.utime(folder / LOCK, (moment, moment))


@pytest.mark.parametrize(
    ("age_s", "changes"),
    [
        (999, {"host": "elsewhere"}),
        (999, {"boot": "another container of this name"}),
        (0, {"started_s": 1.0}),  # The number is another process's by now.
        (0, {"pid": 2**22 + 1}),
    ],
)
def test_who_is_dead_where_the_file_systems_lock_is_not_seen(tmp_path, age_s, changes):
    _write_holder(tmp_path, age_s, **changes)
    with hold_lock(str(tmp_path)):
        pass


@pytest.mark.parametrize("changes", [{"host": "elsewhere"}, {"boot": "another"}, {}])
def test_who_is_alive_where_the_file_systems_lock_is_not_seen(tmp_path, changes):
    _write_holder(tmp_path, 1, **changes)
    with pytest.raises(UserError, match="Another run"), hold_lock(str(tmp_path)):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}'])
def test_a_lock_that_says_nothing_is_nobodys(tmp_path, content):
    (tmp_path / LOCK).write_text(content)
    with hold_lock(str(tmp_path)):
        pass


def test_a_holder_touches_its_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "TOUCH_EVERY_S", 0.01)
    touched = threading.Event()
    utime = os.utime
    monkeypatch.setattr(locks.os, "utime", lambda *args: (utime(*args), touched.set()))
    with hold_lock(str(tmp_path)):
        assert touched.wait(30)


def test_of_many_that_begin_at_once_one_holds_at_a_time(tmp_path):
    inside, most, held = 0, 0, 0
    guard = threading.Lock()

    def run():
        nonlocal inside, most, held
        for _ in range(50):
            try:
                with hold_lock(str(tmp_path)):
                    with guard:
                        inside, held = inside + 1, held + 1
                        most = max(most, inside)
                    with guard:
                        inside -= 1
            except UserError:
                pass

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and held > 0


def test_a_uri_has_no_lock():
    with hold_lock("gs://bucket/folder"):
        pass
