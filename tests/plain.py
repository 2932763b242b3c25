"""What a unit test may not do, since it is to be quick: start a process, or train a model."""

import contextlib
import multiprocessing.process
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest


@contextlib.contextmanager
def only_plain_functions() -> Iterator[None]:
    """Fails the test that starts a process or fits a model, whatever catches errors there."""
    refused: list[tuple[Any, str]] = [
        (subprocess.Popen, "__init__"),
        (multiprocessing.process.BaseProcess, "start"),
        *((os, name) for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")),
    ]
    if keras := sys.modules.get("keras"):
        refused += [(keras.Model, "fit"), (keras.Model, "train_on_batch")]
    with contextlib.ExitStack() as stack:
        for owner, name in refused:
            stack.enter_context(mock.patch.object(owner, name, _refuse(name)))
        yield


def _refuse(name: str) -> Any:
    def fail(*args: Any, **kwargs: Any) -> None:
        pytest.fail(f"A unit test starts no process and fits no model ({name}); mark it e2e.")

    return fail
