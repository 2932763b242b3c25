"""One run at a time writes to a folder, and a dead one stands in nobody's way."""

import dataclasses
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

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


@pytest.mark.e2e
def test_a_second_run_is_told_who_is_there(tmp_path, other):
    message = rf"Another run \(process {other.pid} on .+, since \d{{4}}-.*\) is writing to"
    with pytest.raises(UserError, match=message), hold_lock(str(tmp_path)):
        pass
    assert other.poll() is None


@pytest.mark.e2e
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
def test_a_lock_that_says_nothing_is_nobodys_unless_it_has_just_been_made(tmp_path, content):
    (tmp_path / LOCK).write_text(content)
    with pytest.raises(UserError, match="Another run is writing"), hold_lock(str(tmp_path)):
        pass
    moment = (tmp_path / LOCK).stat().st_mtime - 6
    os.utime(tmp_path / LOCK, (moment, moment))
    with hold_lock(str(tmp_path)):
        pass


def test_a_holder_touches_its_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "TOUCH_EVERY_S", 0.01)
    touched = threading.Event()
    utime = os.utime
    monkeypatch.setattr(locks.os, "utime", lambda *args: (utime(*args), touched.set()))
    with hold_lock(str(tmp_path)):
        assert touched.wait(120)


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


@pytest.fixture
def no_flock(monkeypatch):
    """A file system without the system's locks, as some over a network are."""

    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


_FIGHT = """
import errno, fcntl, os, random, sys, time
from image_pipeline.components import locks
from image_pipeline.components.errors import UserError

folder, watcher, seed, has_flock = sys.argv[1:]
flock, chance = fcntl.flock, random.Random(int(seed))
if has_flock == "False":
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "no locks")
    fcntl.flock = refuse
watch = os.open(watcher, os.O_RDWR)
held = 0
while held < 60:
    try:
        with locks.hold_lock(folder) as check:
            flock(watch, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: two are inside.
            held += 1
            flock(watch, fcntl.LOCK_UN)
            if held == 20 and int(seed) < 2:
                os.kill(os.getpid(), 9)
            check()
    except UserError:
        time.sleep(chance.random() / 1000)
print("held", held)
"""


@pytest.mark.e2e
@pytest.mark.parametrize("has_flock", [True, False])
def test_of_many_processes_one_holds_at_a_time_though_some_die(tmp_path, has_flock):
    folder, watcher = tmp_path / "out", tmp_path / "watcher"
    watcher.touch()
    fighters = [
        subprocess.Popen(
            [sys.executable, "-c", _FIGHT, folder, watcher, str(seed), str(has_flock)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for seed in range(4)
    ]
    said = [fighter.communicate()[0] for fighter in fighters]
    assert [fighter.returncode for fighter in fighters] == [-9, -9, 0, 0], said
    assert all(each.startswith("held ") for each in said[2:]), said
    with hold_lock(str(folder)):  # One that was killed may have come last.
        pass
    assert list(folder.iterdir()) == []


def _seem_dead(folder):
    """Makes a holder look like one on another machine that shows no sign of life any more."""
    holder = json.loads((folder / LOCK).read_text())
    _write_holder(folder, 999, **holder | {"host": "elsewhere"})


def test_a_holder_that_was_taken_for_dead_leaves_the_lock_to_who_took_it_over(tmp_path, no_flock):
    with hold_lock(str(tmp_path)) as check:
        check()
        _seem_dead(tmp_path)
        check()
        second = hold_lock(str(tmp_path))
        check_second = second.__enter__()
        with pytest.raises(UserError, match=r"Another run has taken over .*did not show for 120 s"):
            check()
    check_second()
    with pytest.raises(UserError, match="Another run"), hold_lock(str(tmp_path)):
        pass
    second.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_find_the_same_dead_holder_one_takes_over(tmp_path, no_flock, monkeypatch):
    _write_holder(tmp_path, 999, host="elsewhere")
    is_alive, other = locks._is_alive, hold_lock(str(tmp_path))

    def is_overtaken(*arguments):
        monkeypatch.setattr(locks, "_is_alive", is_alive)
        found = is_alive(*arguments)
        check.append(other.__enter__())
        return found

    check = []
    monkeypatch.setattr(locks, "_is_alive", is_overtaken)
    with pytest.raises(UserError, match=f"process {os.getpid()} on"), hold_lock(str(tmp_path)):
        pass
    check[0]()
    other.__exit__(None, None, None)


@pytest.mark.parametrize("age_s", [1, 999])
def test_who_was_killed_while_it_removed_a_lock_stands_in_the_way_for_a_while(tmp_path, age_s):
    _write_holder(tmp_path, 0, pid=2**22 + 1)
    claim = tmp_path / f"{LOCK}.{json.loads((tmp_path / LOCK).read_text())['token']}.tmp"
    claim.touch()
    moment = claim.stat().st_mtime - age_s
    os.utime(claim, (moment, moment))
    with pytest.raises(UserError, match="Another run is writing"), hold_lock(str(tmp_path)):
        pass
    assert claim.exists() == (age_s == 1)
    claim.unlink(missing_ok=True)
    with hold_lock(str(tmp_path)):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused_and_nothing_behind_it_changes(tmp_path, kind):
    other = tmp_path / "other"
    if kind == "link":
        other.write_text("precious")
    if kind.startswith("link"):
        (tmp_path / LOCK).symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(tmp_path / LOCK)
    else:
        (tmp_path / LOCK).mkdir()
    with pytest.raises(UserError, match=r"Cannot lock .*/\.lock"), hold_lock(str(tmp_path)):
        pass
    assert (other.read_text() if kind == "link" else other.exists()) in ("precious", False)


@pytest.mark.e2e
def test_another_persons_lock_can_be_read_only(tmp_path, other, monkeypatch):
    open_file = os.open

    def refuse(path, flags, *mode, **options):
        if str(path).endswith(LOCK) and flags & os.O_RDWR and not flags & os.O_EXCL:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return open_file(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UserError, match=rf"process {other.pid} on"), hold_lock(str(tmp_path)):
        pass
    other.kill()
    other.wait()
    with hold_lock(str(tmp_path)):
        pass


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"Cannot lock .*file.: (File exists|Not a directory)"),
        hold_lock(str(tmp_path / "file")),
    ):
        pass


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": -1},
        {"pid": "x"},
        {"pid": 1.5},
        {"started_s": None},
        {"started_s": 10**400},
        {"token": "\0", "host": "elsewhere"},
        {"token": "\ud800", "host": "elsewhere"},
        {"token": "/../other", "host": "elsewhere"},
    ],
)
def test_a_forged_lock_names_no_file_and_breaks_nothing(tmp_path, changes):
    (tmp_path / "out" / f"{LOCK}.").mkdir(parents=True)
    other = tmp_path / "out" / "other.tmp"
    other.touch()
    os.utime(other, (0, 0))
    _write_holder(tmp_path / "out", 999, **changes)
    with hold_lock(str(tmp_path / "out")):
        pass
    assert other.exists()


@pytest.mark.parametrize("content", [None, ""])
def test_a_lock_of_a_time_to_come_does_not_hold_until_then(tmp_path, content):
    _write_holder(tmp_path, -(10**8), host="elsewhere")
    if content is not None:
        (tmp_path / LOCK).write_text(content)
        os.utime(tmp_path / LOCK, (2**32, 2**32))
    with hold_lock(str(tmp_path)):
        pass


def test_a_living_holder_is_not_taken_for_dead_by_a_clock_that_is_wrong_here(tmp_path, monkeypatch):
    _write_holder(tmp_path, 1, host="elsewhere")
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 3600)
    with pytest.raises(UserError, match="on elsewhere"), hold_lock(str(tmp_path)):
        pass


def test_a_process_that_proc_does_not_show_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 2**22 + 1)
    with (
        pytest.raises(UserError, match="/proc is of another process namespace"),
        hold_lock(str(tmp_path)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_files_is_not_taken_for_another_run(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with (
            pytest.raises(UserError, match=r"Cannot lock .*: File too large"),
            hold_lock(str(tmp_path)),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []  # Nothing that the next run would wait for.
    with hold_lock(str(tmp_path)):
        pass
