"""Several machines on this one: processes with a TF_CONFIG each, and ports that are free."""

import json
import os
import pathlib
import socket
import subprocess

from tests import warm

# What hangs is ended then: far more than several machines need on one that is busy.
PATIENCE_S = 1500
# oneDNN's convolutions fail on a device without a record.
_IMPORTED = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "2"}
# Commands find these tests' models before what others have installed under that name.
_ENVIRONMENT = _IMPORTED | {"PYTHONPATH": str(pathlib.Path(__file__).parents[2])}


def start_machines(count, arguments, chief=False):
    """Starts as many processes of Python with these arguments; with one, TF_CONFIG names none."""
    addresses = [f"localhost:{port}" for port in find_ports(count)]
    cluster = {"worker": addresses}
    tasks = [{"type": "worker", "index": number} for number in range(count)]
    if chief:
        cluster = {"chief": addresses[:1], "worker": addresses[1:]}
        tasks = [{"type": "chief", "index": 0}, *tasks[:-1]]
    configs = [{"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} for task in tasks]
    return [
        subprocess.Popen(
            [*warm.python(**_IMPORTED), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | _ENVIRONMENT | (config if count > 1 else {}),
        )
        for config in configs
    ]


def end_machines(processes):
    """Waits; gives each one's exit code, stdout and stderr. None is left, whatever happens."""
    try:
        told = [process.communicate(timeout=PATIENCE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *texts) for process, texts in zip(processes, told, strict=True)]


def find_ports(count):
    """Ports that nobody uses."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
