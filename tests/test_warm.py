"""That a fork is as much a process as one that begins by itself."""

import signal
import subprocess

import pytest

from tests import warm

pytestmark = pytest.mark.e2e

_STAY = """
import subprocess, time
subprocess.Popen(["sh", "-c", "sleep 60; echo the child goes on"])
print("begun", flush=True)
time.sleep(60)
print("the fork goes on")
"""


def test_whoever_kills_the_asker_kills_the_fork_and_its_children():
    asker = subprocess.Popen([*warm.python(), "-c", _STAY], stdout=subprocess.PIPE, text=True)
    assert asker.stdout.readline() == "begun\n"
    asker.kill()
    assert asker.stdout.read() == ""  # It ends when all who could write to it have.
    assert asker.wait() == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_a_fork_that_dies_of_a_signal_is_seen_to(number):
    die = f"import os; os.kill(os.getpid(), {number})"
    assert subprocess.run([*warm.python(), "-c", die]).returncode == -number


def test_a_signal_reaches_the_fork():
    wait = "import signal; print('begun', flush=True); signal.sigwait([15]); raise SystemExit(7)"
    block = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); {wait}"
    asker = subprocess.Popen([*warm.python(), "-c", block], stdout=subprocess.PIPE, text=True)
    assert asker.stdout.readline() == "begun\n"
    asker.terminate()
    assert asker.wait() == 7


def test_each_fork_draws_other_numbers():
    draw = [*warm.python(), "-c", "import numpy; print(numpy.random.bytes(8))"]
    first, second = (subprocess.check_output(draw) for _ in range(2))
    assert first != second
