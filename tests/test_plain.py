"""What fails in a unit test: each way to start a process that Python has, and training."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.plain import only_plain_functions

pytestmark = pytest.mark.unit

COMMAND = ["/bin/true"]


def _submit():
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        pool.submit(int).result()


STARTS = {
    "Popen": lambda: subprocess.Popen(COMMAND),
    "run": lambda: subprocess.run(COMMAND),
    "check_output": lambda: subprocess.check_output(COMMAND),
    "popen": lambda: os.popen("true"),
    "system": lambda: os.system("true"),
    "posix_spawn": lambda: os.posix_spawn(COMMAND[0], COMMAND, {}),
    "posix_spawnp": lambda: os.posix_spawnp(COMMAND[0], COMMAND, {}),
    "spawnv": lambda: os.spawnv(os.P_WAIT, COMMAND[0], COMMAND),
    "fork": lambda: os.fork() or os._exit(0),
    "forkpty": lambda: os.forkpty()[0] or os._exit(0),
    "pty.fork": lambda: pty.fork()[0] or os._exit(0),
    "Process": lambda: multiprocessing.Process(target=int).start(),
    "spawn": lambda: multiprocessing.get_context("spawn").Process(target=int).start(),
    "Pool": lambda: multiprocessing.Pool(1),
    "ProcessPoolExecutor": _submit,
}


@pytest.mark.parametrize("name", STARTS)
def test_a_process_is_refused_whatever_catches_errors(name):
    with (
        pytest.raises(pytest.fail.Exception, match="A unit test starts no process"),
        only_plain_functions(),
        contextlib.suppress(Exception),
    ):
        STARTS[name]()


@pytest.mark.parametrize("name", ["fit", "train_on_batch"])
def test_training_is_refused_of_every_kind_of_model(monkeypatch, name):
    class Model:
        fit = train_on_batch = print

    class Own(Model):
        pass

    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(Model=Model))
    refused = pytest.raises(pytest.fail.Exception, match=rf"fits no model \({name}\)")
    with only_plain_functions(), refused:
        getattr(Own(), name)()
    getattr(Own(), name)()


def test_afterwards_all_is_as_before():
    before = os.fork, subprocess.Popen.__init__
    with only_plain_functions():
        assert os.fork != before[0]
    assert (os.fork, subprocess.Popen.__init__) == before
