import contextlib
import json
import socket
import threading

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.training import cluster as clusters
from image_pipeline.components.training.cluster import Cluster, meet, read_cluster
from tests.training.machines import find_ports

pytestmark = pytest.mark.unit

WORKERS = {"worker": ["a:1", "b:2", "[::1]:3"]}


def read(monkeypatch, cluster, kind="worker", index=0):
    task = {"type": kind, "index": index}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    return read_cluster()


@pytest.mark.parametrize("value", ["", "{}", '{"cluster": {"chief": ["a:1"]}}'])
def test_one_machine_or_none_is_no_cluster(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    assert read_cluster() is None


def test_the_first_worker_is_the_chief_unless_there_is_one(monkeypatch):
    found = [read(monkeypatch, WORKERS, index=index) for index in range(3)]
    assert [each.number for each in found] == [0, 1, 2]
    assert [each.is_chief for each in found] == [True, False, False]
    assert found[0].addresses == ("a:1", "b:2", "[::1]:3") and found[0].size == 3
    both = {"chief": ["c:9"], **WORKERS}
    assert read(monkeypatch, both, "chief") == Cluster(("c:9", "a:1", "b:2", "[::1]:3"), 0)
    assert read(monkeypatch, both, index=1).number == 2


@pytest.mark.parametrize("value", ["[1]", "worker", '{"cluster": [1]}', '{"cluster": {"a": 1}}'])
def test_what_is_no_cluster_is_told(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match="TF_CONFIG must be a JSON object"):
        read_cluster()


@pytest.mark.parametrize(
    ("cluster", "kind", "index", "message"),
    [
        (
            {"ps": ["p:1"], **WORKERS},
            "worker",
            0,
            "TF_CONFIG has the task ps, which .* not that of",
        ),
        ({"ps": ["p:1"], **WORKERS}, "ps", 0, "result depends on the workers' speed; make these"),
        (WORKERS, "evaluator", 0, "the task evaluator, .* themselves evaluate every epoch"),
        ({"boss": ["p:1"], **WORKERS}, "worker", 0, "the task boss, .* chief or a worker; call it"),
        (WORKERS, "worker", 3, "with `task` one of the machines of its cluster"),
        (WORKERS, "worker", -1, "with `task` one of the machines of its cluster"),
        (WORKERS, "chief", 0, "with `task` one of the machines of its cluster"),
        ({"chief": ["a:1", "b:1"]}, "chief", 0, "must name one chief at most"),
        ({"worker": ["a:1", "b"]}, "worker", 0, "each machine as host:port, got 'b'"),
        ({"worker": ["a:1", "b:port"]}, "worker", 0, "each machine as host:port, got 'b:port'"),
    ],
)
def test_what_cannot_train_together_is_refused(monkeypatch, cluster, kind, index, message):
    with pytest.raises(UserError, match=message):
        read(monkeypatch, cluster, kind, index)


def start(addresses, numbers, patience_s):
    """Lets machines meet, each in a thread; gives what each said when it ended, None if it met."""
    said = {}

    def run(number):
        try:
            meet(Cluster(addresses, number), patience_s)
            said[number] = None
        except UserError as error:
            said[number] = str(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in numbers]
    for thread in threads:
        thread.start()
    return said, threads


def make_addresses(count):
    return tuple(f"localhost:{port}" for port in find_ports(count))


def test_all_meet_whoever_comes_first(monkeypatch):
    monkeypatch.setattr(clusters, "_RETRY_S", 0.02)
    addresses = make_addresses(3)
    said, threads = start(addresses, [2, 1], 120)
    late, chief = start(addresses, [0], 120)
    for thread in (*threads, *chief):
        thread.join()
    assert said | late == {0: None, 1: None, 2: None}


def test_a_missing_machine_is_named_by_the_chief_and_told_by_the_others(monkeypatch):
    monkeypatch.setattr(clusters, "_RETRY_S", 0.02)
    addresses = make_addresses(3)
    said, threads = start(addresses, [0, 1], 8)
    for thread in threads:
        thread.join()
    missing = f"The chief has waited in vain for these workers of TF_CONFIG: 2 ({addresses[2]});"
    assert said[0].startswith(missing)
    assert said[1].startswith("Worker 1 has waited in vain for the others: the chief of TF_CONFIG")


def say(address, text):
    """Connects as soon as somebody listens, says something, and leaves."""
    host, _, port = address.rpartition(":")
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, int(port))) as connection,
        ):
            return connection.sendall(text)


def test_who_has_left_again_or_is_no_worker_is_not_counted(monkeypatch):
    monkeypatch.setattr(clusters, "_RETRY_S", 0.02)
    addresses = make_addresses(3)
    said, threads = start(addresses, [0], 8)
    for text in (b"worker 1 of 3\n", b"GET / HTTP/1.1\r\n", b"worker 2 of 4\n"):
        say(addresses[0], text)
    start(addresses, [2], 8)  # which is there, and waits
    threads[0].join()
    missing = f"The chief has waited in vain for these workers of TF_CONFIG: 1 ({addresses[1]});"
    assert said[0].startswith(missing)


def test_a_port_in_use_is_told():
    with socket.create_server(("localhost", 0)) as server:
        addresses = (f"localhost:{server.getsockname()[1]}", "localhost:1")
        with pytest.raises(UserError, match=r"cannot listen at port \d+, .* \(Address already in"):
            meet(Cluster(addresses, 0), 0.1)
