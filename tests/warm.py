"""Python processes that begin with TFX imported: each is a fork of one that serves them.

A process of its own pays 12 s of CPU for TFX; a fork pays 0.1, and is as much a process: arguments,
environment, working folder, terminal, signals and exit code are its own. If the process that waits
for it is killed, so is the fork. Not for tests of what is imported.
"""

import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types

# What the commands import, all of it before TensorFlow begins threads, which no fork would have.
_IMPORTED = (
    "image_pipeline.api",
    "image_pipeline.doctor.examine",
    "image_pipeline.preview.plots",
    "image_pipeline.report.page",
    "image_pipeline.run.local",
    "image_pipeline.show.summary",
    "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor",
)


@functools.cache
def python(**environment: str) -> list[str]:
    """The beginning of a command, in place of `sys.executable`: -c, -m or a script follow.

    Args:
      environment: variables that libraries read when they are imported.
    """
    path = os.path.join(tempfile.mkdtemp(), "socket")
    server = subprocess.Popen(
        [sys.executable, __file__, path],
        stdin=subprocess.PIPE,  # Which ends with this process, and the server with it.
        stdout=subprocess.PIPE,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "1", "GRPC_VERBOSITY": "ERROR"} | environment,
    )
    assert server.stdout is not None and server.stdout.readline() == b"ready\n"
    _SERVERS.append(server)
    return [sys.executable, "-E", "-s", "-S", __file__, path, "run"]


_SERVERS: list[subprocess.Popen] = []  # Were they collected, so would be their pipes.


def _run(path: str, arguments: list[str]) -> int:
    """Has the server run a process, and passes signals on to it; its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # None is lost before there is a process.
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
        socket.send_fds(server, [b"fds"], [0, 1, 2])
        server.sendall(f"{json.dumps(asked)}\n".encode())
        answers = server.makefile()
        process = int(answers.readline())
        threading.Thread(target=_pass_on, args=[process], daemon=True).start()
        return int(answers.readline())


_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _pass_on(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # It has ended, and so will this one.
        while True:
            os.kill(process, signal.sigwait(_PASSED_ON))


def _end(code: int) -> None:
    """Ends as the fork did: with its exit code, or of its signal."""
    if code >= 0:
        sys.exit(code)
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
    signal.raise_signal(-code)


def _serve(path: str) -> list[str]:
    """Forks for each that asks, until stdin ends; returns, in a fork, with its arguments."""
    for module in _IMPORTED:
        __import__(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            with listener.accept()[0] as client:
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    return _fork(client)
    os._exit(0)


def _fork(client: socket.socket) -> list[str]:
    """Forks once more, waits for that process, and tells the client; returns in the fork only."""
    _, descriptors, _, _ = socket.recv_fds(client, 3, 3)
    asked = json.loads(client.makefile().readline())
    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        client.close()
        _become(descriptors, asked["folder"], asked["environment"])
        return asked["arguments"]
    # This one keeps the descriptors until the fork is reaped: whoever reads to their end knows then
    # that there is no such process any more.
    with contextlib.suppress(BrokenPipeError):
        client.sendall(f"{process}\n".encode())
    code = _wait(process, client)
    with contextlib.suppress(BrokenPipeError):
        client.sendall(f"{code}\n".encode())
    os._exit(0)


def _wait(process: int, client: socket.socket) -> int:
    """Waits for a fork, and kills all of its group if the client, who writes no more, is gone."""
    with contextlib.suppress(OSError):  # It has done so itself, or has ended.
        os.setpgid(process, process)
    ended = os.pidfd_open(process)
    if ended not in select.select([client, ended], [], [])[0]:
        os.killpg(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _become(descriptors: list[int], folder: str, environment: dict[str, str]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.modules["numpy"].random.seed()  # Else all forks draw the same; Python's seeds itself again.
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(line_buffering=stream.isatty() or "PYTHONUNBUFFERED" in environment)
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [each for each in added if each]


def _begin(arguments: list[str]) -> None:
    """What Python does with its arguments."""
    kind, *rest = arguments
    if kind == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        sys.argv, sys.path[0] = rest, os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(kind))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    path, *arguments = sys.argv[1:]
    if arguments:
        _end(_run(path, arguments[1:]))
    _begin(_serve(path))
