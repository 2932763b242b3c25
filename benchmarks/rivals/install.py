"""Finds or makes the environment of each reader, and its own files of the data sets."""

import argparse
import os
import pathlib
import subprocess
import sys

from bench.environments import NotInstalledError, make_environment
from rivals import protocol
from rivals.registry import ENVIRONMENTS, READERS

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
# Libraries that use a GPU, or ask the net, on their own account are asked not to.
QUIET = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", "HF_HUB_OFFLINE": "1"}


def find_pythons(arguments: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """The Python of each reader that runs here, and why others do not."""
    given = {"ffcv": arguments.python_ffcv, "dali": arguments.python_dali}
    found, left_out = {}, {}
    for name in arguments.readers:
        rival = READERS[name]
        try:
            python = given.get(name) or _make(rival.environment, arguments.build)
            if rival.environment is not None:
                _import(python, rival.module)
        except (NotInstalledError, OSError) as error:
            left_out[name] = str(error).splitlines()[-1]
            print(f"{name} is left out: {left_out[name]}", flush=True)
        else:
            found[name] = python
    return found, left_out


def _make(environment: str | None, build_dir: pathlib.Path) -> str:
    if environment is None:
        return sys.executable
    return make_environment(ENVIRONMENTS[environment], build_dir / environment)


def _import(python: str, module: str) -> None:
    command = [python, "-W", "ignore", "-c", f"import {module}"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=BENCHMARKS, env=os.environ | QUIET
    )
    if done.returncode:
        raise NotInstalledError(done.stderr.strip())


def write_packs(pythons: dict[str, str], tasks: list[str], data: str) -> None:
    """Writes the rivals' own files of the data sets that the tasks read, where they are missing."""
    for folder in sorted({pathlib.Path(data, protocol.TASKS[task].data) for task in tasks}):
        for name, python in pythons.items():
            packed = READERS[name].packed
            if name == "ffcv" and not (folder / "images.beton").exists():
                _run(python, "rivals.ffcv_write", str(folder))
            elif packed and not (protocol.packed_dir(folder, packed) / "packed").exists():
                _run(python, "rivals.pack", packed, str(folder))


def _run(python: str, module: str, *arguments: str) -> None:
    command = [python, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=BENCHMARKS, env=os.environ | QUIET
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)}:\n{done.stderr[-3000:]}")
