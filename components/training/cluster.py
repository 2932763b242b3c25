"""The machines that train one model together: who they are, and how they meet.

They meet before TensorFlow starts, which would wait for a missing one for an hour, deaf to signals.
"""

import contextlib
import dataclasses
import os
import socket
import time

import pydantic

from image_pipeline.components.errors import UserError

# Where others' images are pulled, or their machines are started first, that takes minutes.
PATIENCE_S = 600.0
_LONGER = 1.2
_RETRY_S = 0.5
_ANSWER_S = 5.0  # of whoever connects to the chief
_GO = b"go\n"
_REFUSED = {
    "ps": "parameter servers give each worker's steps to the weights as they come, so that a step "
    "is not that of one batch, and the result depends on the workers' speed; make these machines "
    "workers",
    "evaluator": "the workers themselves evaluate every epoch, each its part of the split; leave "
    "this one out",
}


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The machines, and which one this is.

    Attributes:
      addresses: host and port of each, the chief's first.
      number: of this one, from 0.
    """

    addresses: tuple[str, ...] = ("localhost:0",)
    number: int = 0

    @property
    def size(self) -> int:
        """How many machines there are."""
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this is the one that writes what comes of training."""
        return self.number == 0


class _Task(pydantic.BaseModel):
    type: str
    index: int


class _Config(pydantic.BaseModel):
    cluster: dict[str, list[str]] = {}
    task: _Task | None = None


def read_cluster() -> Cluster | None:
    """What the environment variable TF_CONFIG says; None if it names no machine but this one.

    Raises:
      UserError: if it is invalid, or machines have another task than to train.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = _Config.model_validate_json(text)
    except pydantic.ValidationError as error:
        raise UserError(
            f"TF_CONFIG must be a JSON object with a cluster and a task, as docs/strategies.md "
            f"shows, got {text!r}; unset it to train on one machine."
        ) from error
    task = config.task or _Task(type="worker", index=0)
    for kind in {*config.cluster, task.type} - {"chief", "worker"}:
        why = _REFUSED.get(kind, "a machine is the chief or a worker; call it one of these")
        raise UserError(f"TF_CONFIG has the task {kind}, which training does not use: {why}.")
    chiefs, workers = (config.cluster.get(kind, []) for kind in ("chief", "worker"))
    if len(chiefs) + len(workers) <= 1:
        return None
    if len(chiefs) > 1 or not 0 <= task.index < len(config.cluster.get(task.type, [])):
        raise UserError(
            "TF_CONFIG must name one chief at most, and with `task` one of the machines of its "
            f"cluster, got {text!r}; set its task's type and index."
        )
    number = task.index + (len(chiefs) if task.type == "worker" else 0)
    cluster = Cluster((*chiefs, *workers), number)
    for address in cluster.addresses:
        _split_address(address)
    return cluster


def meet(cluster: Cluster, patience_s: float | None = None) -> None:
    """Waits until all machines are there.

    Args:
      cluster: the machines.
      patience_s: how long; None for ten minutes.

    Raises:
      UserError: if one does not come, or the chief cannot listen at its address.
    """
    patience_s = PATIENCE_S if patience_s is None else patience_s
    if cluster.is_chief:
        _gather(cluster, time.monotonic() + patience_s)
    else:  # They wait longer, so that the chief misses none but those that never came.
        _report(cluster, time.monotonic() + _LONGER * patience_s)


def _gather(cluster: Cluster, end_s: float) -> None:
    """The chief's part: listens at its own address, which TensorFlow uses afterwards."""
    hellos = {_hello(cluster, number): number for number in range(1, cluster.size)}
    found: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as opened, _listen(cluster) as server:
        server.settimeout(_RETRY_S)
        # One that was started again says so again.
        while missing := [n for n in hellos.values() if n not in found or _has_left(found[n])]:
            if time.monotonic() > end_s:
                names = ", ".join(f"{n} ({cluster.addresses[n]})" for n in missing)
                raise UserError(
                    f"The chief has waited in vain for these workers of TF_CONFIG: {names}; see "
                    "their logs, and start all of them again."
                )
            with contextlib.suppress(OSError):  # Nobody came, or somebody who says nothing.
                connection = opened.enter_context(server.accept()[0])
                connection.settimeout(_ANSWER_S)
                if number := hellos.get(connection.recv(64)):
                    found[number] = connection
        for connection in found.values():
            connection.sendall(_GO)


def _report(cluster: Cluster, end_s: float) -> None:
    """The others' part: tells the chief, and waits for its word."""
    chief = cluster.addresses[0]
    while time.monotonic() < end_s:
        with (
            contextlib.suppress(OSError),  # It does not listen yet, or has no name yet.
            socket.create_connection(_split_address(chief), _ANSWER_S) as connection,
        ):
            connection.sendall(_hello(cluster, cluster.number))
            connection.settimeout(max(_RETRY_S, end_s - time.monotonic()))
            if connection.recv(len(_GO)) == _GO:
                return
        time.sleep(_RETRY_S)
    raise UserError(
        f"Worker {cluster.number} has waited in vain for the others: the chief of TF_CONFIG, "
        f"{chief}, does not answer, or waits for another worker itself; see their logs, and start "
        "all of them again."
    )


def _hello(cluster: Cluster, number: int) -> bytes:
    return f"worker {number} of {cluster.size}\n".encode()


def _has_left(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(_ANSWER_S)


def _listen(cluster: Cluster) -> socket.socket:
    _, port = _split_address(cluster.addresses[0])
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise UserError(
            f"The chief cannot listen at port {port}, which TF_CONFIG gives it ({error.strerror}); "
            "end what uses it, or name another."
        ) from error


def _split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise UserError(f"TF_CONFIG must name each machine as host:port, got {address!r}; add it.")
    return host.strip("[]"), int(port)
