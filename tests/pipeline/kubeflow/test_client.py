import contextlib
import re
import socket

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.kubeflow import client
from tests.kubeflow_compile.api_server import run_api_server

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def nobody(tmp_path, monkeypatch):
    """No addresses, tokens or settings of whoever runs the tests."""
    for name in (*client.HOST_VARIABLES, client.TOKEN_VARIABLE, "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def server():
    with run_api_server() as server:
        yield server


def test_the_address_is_given_or_in_the_variables_that_kfp_has(monkeypatch):
    monkeypatch.setenv("KFP_ENDPOINT", "second.org")
    assert client.find_host(None) == "https://second.org"
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", "http://first.org/pipeline/")
    assert client.find_host(None) == "http://first.org/pipeline"
    assert client.find_host("given.org:8888") == "https://given.org:8888"


def test_without_an_address_kfp_looks_in_kubeconfig(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="needs the address of Kubeflow's API; give --host, or set"):
        client.find_host(None)
    (tmp_path / "config").write_text("{}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert client.find_host(None) is None


def test_it_connects_with_a_token_and_asks_once(server, monkeypatch):
    server.token = "secret"
    monkeypatch.setenv("KFP_EXISTING_TOKEN", "secret")
    assert client.connect(server.host, "me").get_user_namespace() == "me"
    assert server.asked == [("GET", "healthz")]


def test_a_refusal_is_a_sentence_after_one_question(server):
    server.token = "secret"
    with pytest.raises(UserError, match=r"refuses access \(HTTP 401: Unauthenticated: no token\)"):
        client.connect(server.host, None)
    assert len(server.asked) == 1


def test_a_page_to_log_in_is_no_api(server):
    server.page = "<html>Log in</html>"
    with pytest.raises(
        UserError, match="answers, but not as Kubeflow's API does: perhaps with a login"
    ):
        client.connect(server.host, None)


@pytest.mark.parametrize("host", ["http://{}:{}", "https://{}:{}"])
def test_a_port_that_nobody_listens_at_is_a_sentence(host):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    with pytest.raises(UserError, match="cannot be reached: Connection refused; check --host"):
        client.connect(host.format(*address), None)


@pytest.mark.parametrize("host", ["http://no.invalid", "http://[::1"])
def test_a_name_that_is_no_machines_is_a_sentence(host):
    with pytest.raises(UserError, match=f"at {re.escape(host)} cannot be reached"):
        client.connect(host, None)


def test_a_server_that_never_answers_is_asked_once(monkeypatch):
    monkeypatch.setattr(client, "_CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(UserError, match=r"did not answer: .*timed out"):
            client.connect("http://{}:{}".format(*silent.getsockname()), None)
        silent.settimeout(0)
        asked = 0
        with contextlib.suppress(BlockingIOError):
            while connection := silent.accept()[0]:
                with connection:
                    connection.settimeout(1)
                    asked += connection.recv(3) == b"GET"
    assert asked == 1


def test_a_server_that_speaks_no_tls_is_a_sentence(server):
    with pytest.raises(UserError, match=r"Cannot connect: https://.* did not answer: "):
        client.connect(server.host.replace("http:", "https:"), None)
