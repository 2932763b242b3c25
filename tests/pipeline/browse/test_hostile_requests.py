"""Requests that no page sends, to a server in a process of its own, whose memory is measured."""

import contextlib
import json
import os
import random
import re
import socket
import stat
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

import pytest
from werkzeug.test import Client

from image_pipeline.browse import server as servers

pytestmark = pytest.mark.e2e

_MORE_KB = 40_000
_BLOCK = b"7," * 2**19


class Served:
    """A running `browse`."""

    def __init__(self, process, url):
        self.process = process
        self.url = urllib.parse.urlparse(url)
        self.path = self.url.path

    def read_status(self, name):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(rf"{name}:\s+(\d+)", file.read())[1])

    def connect(self):
        return socket.create_connection((self.url.hostname, self.url.port), timeout=60)

    def send(self, *blocks):
        """Sends bytes as they are; what came back, which may be nothing."""
        with self.connect() as connection, contextlib.suppress(ConnectionError, TimeoutError):
            with contextlib.suppress(ConnectionError):  # It may have answered nevertheless.
                for block in blocks:
                    connection.sendall(block)
                connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(2**16), b""))
        return b""

    def search(self):
        with urllib.request.urlopen(f"{self.url.geturl()}search", timeout=60) as answer:
            return json.load(answer)["found"]


@pytest.fixture
def served(browsed, tmp_path):
    code = "from image_pipeline.cli import main; main()"
    words = ["browse", str(browsed.data), "--no-open", "--marks", str(tmp_path / "marks.txt")]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Served(process, process.stdout.readline().split()[-1])
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def _heads(path):
    """Heads of requests, and whether the server has the whole token in them."""
    host = b"Host: 127.0.0.1\r\n"
    mark = b"POST %smark HTTP/1.1\r\n%sContent-Type: application/json\r\n" % (path, host)
    return {
        "length": mark + b"Content-Length: 1500000000\r\n\r\n",
        "no length": mark + b"\r\n",
        "negative": mark + b"Content-Length: -1\r\n\r\n",
        "no number": mark + b"Content-Length: many\r\n\r\n",
        "chunked": mark + b"Transfer-Encoding: chunked\r\n\r\n",
        "both": mark + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "no token": b"POST /mark HTTP/1.1\r\n%sContent-Length: 1500000000\r\n\r\n" % host,
        "get with a body": b"GET %s HTTP/1.1\r\n%sContent-Length: 99999999\r\n\r\n" % (path, host),
    }


def test_bodies_of_any_length_take_no_memory(served):
    assert served.search() == 27
    before = served.read_status("VmHWM")
    chunk = b"%x\r\n%s\r\n" % (len(_BLOCK), _BLOCK)
    for name, head in _heads(served.path.encode()).items():
        body = [chunk if name in ("chunked", "both") else _BLOCK] * 300
        answer = served.send(head, b'{"marked":true,"number":[', *body)
        assert answer == b"" or re.match(rb"HTTP/1.1 (200|4\d\d) ", answer), (name, answer[:200])
        # `200` is for the page itself, which a body does not change.
        assert name == "get with a body" or b" 200 " not in answer[:20]
    assert served.search() == 27
    assert served.read_status("VmHWM") - before < _MORE_KB


def test_lines_and_headers_of_any_length_take_no_memory(served):
    assert served.search() == 27
    before = served.read_status("VmHWM")
    path = served.path.encode()
    for head in (
        b"GET " + b"/" * 2**26,
        b"GET %ssearch?path=" % path + b"x" * 2**26,
        b"GET %ssearch HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: " % path + b"x" * 2**26,
        b"GET %ssearch HTTP/1.1\r\nHost: 127.0.0.1\r\n" % path
        + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 60_000) for n in range(99)),
        b"GET %ssearch HTTP/1.1\r\n" % path + b"Cookie: a=b\r\n" * 10**6,
        b"\0" * 2**26,
    ):
        served.send(head, b"\r\n\r\n")
    assert served.search() == 27
    assert served.read_status("VmHWM") - before < _MORE_KB


def test_a_thousand_requests_at_random_are_answered_or_broken_off_and_nothing_grows(
    served, tmp_path
):
    chance = random.Random(35)
    path = served.path.encode()
    texts = [
        b"search?path=%FF", b"search?path=" + b"(" * 3000, b"search?label=" + b"9" * 6000,
        b"search?least_px=1e400", b"search?page=" + b"9" * 5000, b"search?page=1" + b"0" * 30,
        b"search?path=a&path=b", b"search?" + b"&" * 9000, b"record/" + b"9" * 5000,
        b"record/" + b"9" * 30, b"record/-1", b"record/0/%00.picture", b"record/0/views?drawn",
        b"search?epoch=1&step=" + b"9" * 5000, b"search?step=0", b"batch/0/0/9.picture",
        b"batch/0/0/" + b"9" * 500 + b".picture", b"search?record=-1", b"search?file=%00",
        b"search?file=" + b"(" * 3000,
        b"record/0/..%2f.picture", b"record/0/stored.picture?drawn", b"mark", b"", b"page.js",
        b"search?marked=1&order=bytes", b"search?state=quarantined&reason=%0d%0aX",
    ]  # fmt: skip
    bodies = [
        b'{"number": [%s], "marked": true}' % b",".join([b"0"] * 5000),
        b'{"number": 1%s, "marked": true}' % (b"0" * 30),
        b'{"number": 1%s, "marked": true}' % (b"0" * 5000),
        b"[" * 50_000, b"{" + b'"a":{' * 9000, b'{"number": true, "marked": 1}', b"\xff",
        b'{"number": 0, "number": 1, "marked": true, "marked": "\\ud800"}',
    ]  # fmt: skip

    def make() -> bytes:
        body = chance.choice(bodies) if chance.random() < 0.4 else b""
        method = chance.choice([b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS", b"X" * 500, b"get"])
        if body:
            method, target = b"POST", b"mark"
        else:
            target = chance.choice(texts)
        length = len(body) + chance.choice([0, 0, 0, -1, 7])
        head = (
            method + b" " + path + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length
        )
        sent = bytearray(head + body)
        for _ in range(chance.choice([0, 0, 1, 3])):
            sent[chance.randrange(len(sent))] = chance.randrange(256)
        return bytes(sent)

    for _ in range(200):
        served.send(make())
    before = served.read_status("VmHWM")
    for _ in range(1000):
        answer = served.send(make())
        if answer.startswith(b"HTTP/"):
            assert b" 500 " not in answer.partition(b"\r\n")[0], answer
            assert b"Traceback" not in answer
    assert served.search() == 27
    assert served.read_status("VmHWM") - before < _MORE_KB
    assert served.read_status("Threads") < 100


def test_clients_that_do_not_go_on_keep_nobody_out(served):
    waiting = [served.connect() for _ in range(300)]
    for connection in waiting:
        with contextlib.suppress(ConnectionError):  # The oldest have been ended.
            connection.sendall(b"GET / HTTP/1.1\r\nHost:")
    assert served.search() == 27
    assert served.read_status("Threads") < 100
    ended = sum(connection.recv(1) == b"" for connection in waiting[:200])
    assert ended == 200
    for connection in waiting:
        connection.close()


def test_what_does_not_arrive_in_time_is_not_waited_for(browsed, tmp_path, monkeypatch):
    monkeypatch.setattr(servers._Handler, "timeout", 0.2)
    server = servers.Server(browsed.open(tmp_path))
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        url = urllib.parse.urlparse(server.url)
        for sent in (b"GET / HTTP/1.1\r\nHost:", _heads(url.path.encode())["length"] + b"{"):
            with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
                connection.sendall(sent)
                answer = b"".join(iter(lambda: connection.recv(2**16), b""))
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    finally:
        server.shutdown()
        thread.join(60)


def test_a_body_is_as_long_as_it_may_be_or_refused(browsed, tmp_path):
    client = Client(servers.App(browsed.open(tmp_path), "token"))

    def mark(body):
        answer = client.post(
            "/token/mark", data=body, content_type="application/json", base_url="http://127.0.0.1"
        )
        return answer.status_code, answer.json

    body = b'{"number": 0, "marked": true}'
    assert mark(body.ljust(servers.MOST_SENT_BYTES)) == (200, {"marked": 1})
    assert mark(body.ljust(servers.MOST_SENT_BYTES + 1))[0] == 413


def test_the_browser_gets_the_address_from_a_private_file_that_is_gone_once_it_is_open(monkeypatch):
    url, is_open, asked = "http://127.0.0.1:1/token/", threading.Event(), []
    monkeypatch.setattr("webbrowser.open", asked.append)
    with servers.open_page(url, is_open):
        (address,) = asked
        assert "token" not in address and address.startswith("file:///")
        path = urllib.request.url2pathname(urllib.parse.urlparse(address).path)
        with open(path, encoding="utf-8") as file:
            assert f'content="0; url={url}"' in file.read()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        is_open.set()
        for _ in range(12_000):
            if not os.path.exists(path):
                break
            threading.Event().wait(0.01)
        assert not os.path.exists(path)
    assert not os.path.exists(os.path.dirname(path))


def test_the_page_is_open_once_it_was_asked_for_with_its_token(browsed, tmp_path):
    app = servers.App(browsed.open(tmp_path), "token")
    client = Client(app)
    assert client.get("/", base_url="http://127.0.0.1").status_code == 404
    assert not app.is_open.is_set()
    assert client.get("/token/", base_url="http://127.0.0.1").status_code == 200
    assert app.is_open.is_set()
