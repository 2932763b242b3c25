"""A real Flink on this machine: a job manager, two task managers and Beam's worker pool."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.jars import FLINK

TASK_MANAGERS = ("task-manager-1", "task-manager-2")
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
# What Flink's default configuration opens to itself on Java 17.
_OPENED = (
    *("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect"),
    *("java.text", "java.time", "java.util", "java.util.concurrent"),
    *("java.util.concurrent.atomic", "java.util.concurrent.locks"),
)


@dataclasses.dataclass
class FlinkCluster:
    """A running cluster.

    Attributes:
      job_server: the job server's jar.
      rest_port: of the job manager.
      pool_port: of Beam's worker pool.
      start_task_manager: starts one with an id.
      task_managers: process of each task manager by its id.
    """

    job_server: pathlib.Path
    rest_port: int
    pool_port: int
    start_task_manager: Callable[[str], subprocess.Popen]
    task_managers: dict[str, subprocess.Popen] = dataclasses.field(default_factory=dict)

    def beam_args(self, parallelism: int) -> list[str]:
        """The Beam flags that run a job here."""
        return [
            "--runner=FlinkRunner",
            f"--flink_version={FLINK.version}",
            f"--flink_master=127.0.0.1:{self.rest_port}",
            f"--flink_job_server_jar={self.job_server}",
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{self.pool_port}",
            # Without it, each wave of stages starts workers, and they import TensorFlow again.
            "--environment_cache_millis=60000",
            f"--parallelism={parallelism}",
        ]

    def ask(self, path: str) -> Any:
        """Asks the job manager, for example for `/overview`."""
        url = f"http://127.0.0.1:{self.rest_port}{path}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)

    def last_job(self) -> dict:
        """The job that started last: `jid`, `state`, `duration` in ms and more; {} if none."""
        jobs = self.ask("/jobs/overview")["jobs"]
        return max(jobs, key=lambda job: job["start-time"], default={})

    def find_task_managers(self, job_id: str, stage: str) -> set[str]:
        """The ids of the task managers that are running a stage of a job."""
        vertices = self.ask(f"/jobs/{job_id}")["vertices"]
        running = [v for v in vertices if stage in v["name"] and v["status"] == "RUNNING"]
        return {
            subtask["taskmanager-id"]
            for vertex in running
            for subtask in self.ask(f"/jobs/{job_id}/vertices/{vertex['id']}")["subtasks"]
            if subtask["status"] == "RUNNING"
        }

    def fill(self) -> None:
        """Starts the task managers that are not running, and waits until they are registered.

        Raises:
          RuntimeError: if they are not within 60 s.
        """
        for name in set(TASK_MANAGERS) - set(self.task_managers):
            self.task_managers[name] = self.start_task_manager(name)

        def is_ready() -> bool:
            return self.ask("/overview")["taskmanagers"] == len(TASK_MANAGERS)

        if not wait_until(is_ready, timeout_s=60):
            raise RuntimeError("The Flink cluster is not ready after 60 s.")

    def kill(self, task_manager: str) -> None:
        """Kills a task manager as a failing machine would, without a word to the others."""
        process = self.task_managers.pop(task_manager)
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def start_cluster(job_server: pathlib.Path, log_dir: pathlib.Path) -> Iterator[FlinkCluster]:
    """Starts the processes, waits until both task managers are registered; stops all in the end.

    Args:
      job_server: what `fetch_job_server` returned.
      log_dir: what each process says goes to `<its name>.log` in it.
    """
    rest_port, rpc_port, pool_port = find_free_ports(3)
    settings = [f"-Drest.port={rest_port}", f"-Djobmanager.rpc.port={rpc_port}"]
    with contextlib.ExitStack() as stack:

        def start(name: str, command: list[str]) -> subprocess.Popen:
            return stack.enter_context(running(command, log_dir / f"{name}.log"))

        def start_task_manager(name: str) -> subprocess.Popen:
            own = _configured([*settings, f"-Dtaskmanager.resource-id={name}"])
            return start(name, [*_java(job_server, 1536), _TASK_MANAGER, *own])

        start("job-manager", [*_java(job_server, 400), _JOB_MANAGER, *_configured(settings)])
        start("worker-pool", pool_command(pool_port))
        cluster = FlinkCluster(job_server, rest_port, pool_port, start_task_manager)
        cluster.fill()
        yield cluster


@contextlib.contextmanager
def start_pool(log_path: pathlib.Path) -> Iterator[list[str]]:
    """Runs a pool of workers as long as the block; yields the Beam flags of a job that uses it.

    A worker is kept for longer than any test: each embedded Flink calls its first worker `1-1`, and
    to let that of one job go would stop that of the next.
    """
    (port,) = find_free_ports(1)

    def answers() -> bool:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True

    with running(pool_command(port), log_path):
        if not wait_until(answers, timeout_s=120):
            raise RuntimeError(f"The pool of workers does not answer; {log_path} says why.")
        yield [
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{port}",
            "--environment_cache_millis=7200000",
        ]


def pool_command(port: int) -> list[str]:
    """The command that starts Beam's worker pool."""
    module = "apache_beam.runners.worker.worker_pool_main"
    return [sys.executable, "-m", module, f"--service_port={port}"]


def _java(job_server: pathlib.Path, heap_mb: int) -> list[str]:
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    limits = [f"-Xmx{heap_mb}m", "-XX:MaxDirectMemorySize=600m"]
    return ["java", *opened, *limits, "-cp", str(job_server)]


def _configured(settings: list[str]) -> list[str]:
    return ["--configDir", str(FLINK.config_dir), *settings]


@contextlib.contextmanager
def running(
    command: list[str], log_path: pathlib.Path, python_dir: str = os.path.dirname(sys.executable)
) -> Iterator[subprocess.Popen]:
    """Runs a process, with all that it starts itself, for as long as the block does.

    Args:
      command: of the process.
      log_path: what they say is added to this file.
      python_dir: first on their PATH. A pool starts its workers as plain `python`.
    """
    path = os.pathsep.join([python_dir, os.environ["PATH"]])
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_path, "ab") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {"PATH": path},
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(condition: Callable[[], Any], timeout_s: float) -> Any:
    """Asks again and again, through failed connections, until the answer is true or time is up."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if answer := condition():
                return answer
        time.sleep(0.1)
    return None


def find_free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
