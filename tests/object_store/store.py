"""Starts the store of `server.py`, and lets this process's Beam and TensorFlow find it."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from image_pipeline.components.stores import remote
from tests.object_store.server import BUCKET, CERTIFICATE

ROOT = pathlib.Path(__file__).parents[2]


class Store:
    """A running store."""

    uri = f"gs://{BUCKET}"

    def __init__(self, address: str, process_id: int, environment: Mapping[str, str]):
        """Takes where it is, and the environment in which clients find it."""
        self.address = address
        self.process_id = process_id
        self.environment = environment

    def control(self, **wanted: float | str) -> dict[str, Any]:
        """Sets what is given of `delay_s`, and together `fault`, `kind` and `times`.

        The next `times` requests of the kind ("any", or as many of "each") then meet the fault: a
        status such as "503", "drop" (the connection ends without a word), "half" (it ends in the
        middle of the answer), or "silent" (no answer before the fault is set again).

        Returns:
          What was counted since the last call: `requests`, their numbers by kind; `at_once`, how
          many waited for an answer side by side; `faults`, how many met the latest fault.
        """
        query = urllib.parse.urlencode(wanted)
        with urllib.request.urlopen(f"{self.address}/_control?{query}", timeout=120) as answer:
            return json.load(answer)


@contextlib.contextmanager
def run_store(folder: pathlib.Path, delay_s: float = 0) -> Iterator[Store]:
    """Runs a store as a process of its own, with an empty bucket, while the block does."""
    command = [sys.executable, "-m", "tests.object_store.server", str(folder)]
    command += ["--delay-ms", str(1000 * delay_s)]
    pipe = subprocess.PIPE
    with open(folder / "server.log", "w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=log, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, (folder / "server.log").read_text()
        yield Store(address, process.pid, client_environment(address, folder))
    finally:
        process.terminate()
        process.wait(120)


def client_environment(address: str, folder: pathlib.Path) -> dict[str, str]:
    """The environment variables by which clients find the store, and look for no credentials."""
    return {
        "STORAGE_EMULATOR_HOST": address,
        "NO_GCE_CHECK": "true",
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "anyone",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "https_proxy": address,  # These two for TensorFlow.
        "CURL_CA_BUNDLE": str(folder / CERTIFICATE),
    }


def skip_credentials() -> None:
    """Without credentials Beam's client looks for them for half a minute, once a process."""
    from apache_beam.internal.gcp import auth

    auth._Credentials._credentials_init = True


@contextlib.contextmanager
def use_store(store: Store) -> Iterator[None]:
    """Lets this process's clients find the store."""
    before = {name: os.environ.get(name) for name in store.environment}
    os.environ.update(store.environment)
    skip_credentials()
    remote.forget_stores()
    try:
        yield
    finally:
        remote.forget_stores()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
