"""Real requests to the real server, in a thread; `test_command` starts it as a process."""

import http.client
import json
import subprocess
import sys
import threading
import urllib.parse

import pytest

from image_pipeline.browse import server as servers
from image_pipeline.browse.catalogue import Query
from image_pipeline.components.errors import UserError
from image_pipeline.report.page import make_report
from tests.drawings import write_scenes
from tests.ingest_runs import ingest
from tests.pipeline.browse.browsed import VIEW

pytestmark = pytest.mark.beam


class Client:
    """Sends requests as a browser does, or as it should not."""

    def __init__(self, url):
        self.url = urllib.parse.urlparse(url)

    def send(self, path="", method="GET", body=None, token=None, **headers):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60)
        connection.request(method, f"{token or self.url.path}{path}", body, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def ask(self, path, **request):
        status, _, content = self.send(path, **request)
        return status, json.loads(content)

    def mark(self, body, kind="application/json", **headers):
        headers = {"Content-Type": kind, **headers}
        return self.ask("mark", method="POST", body=json.dumps(body), **headers)


@pytest.fixture
def session(browsed, tmp_path):
    return browsed.open(tmp_path)


@pytest.fixture
def client(session):
    server = servers.Server(session)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield Client(server.url)
    server.shutdown()
    thread.join(60)
    assert not thread.is_alive()


def test_the_page_and_its_files_come_with_what_keeps_others_out(client):
    for path, kind in (("", "text/html"), ("page.css", "text/css"), ("page.js", "text/javascript")):
        status, headers, content = client.send(path)
        assert status == 200 and headers["Content-Type"] == f"{kind}; charset=utf-8" and content
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers


def test_the_report_comes_as_its_command_writes_it(client, session):
    status, headers, content = client.send("report")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    # Its own policy lets its one script run; the server's would not.
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert content == make_report(session.title)[1] and b"script-src 'sha256-" in content


def test_records_are_searched_shown_and_marked(client, session, tmp_path):
    status, found = client.ask("search?path=cat%2F04")
    assert status == 200 and found["found"] == 1
    number = found["entries"][0]["number"]
    assert client.ask(f"record/{number}")[1]["entry"]["path"] == "cat/04.png"
    for name in ("original", "stored", "thumbnail"):
        status, headers, content = client.send(f"record/{number}/{name}.picture")
        assert (status, headers["Content-Type"]) == (200, "image/png")
        assert content == session.draw(number, name, False).data
    assert client.mark({"number": number, "marked": True}) == (200, {"marked": 1})
    assert (tmp_path / "marks.txt").read_text() == "cat/04.png\n"
    assert client.ask("search?marked=1")[1]["found"] == 1
    assert client.mark({"number": number, "marked": False}) == (200, {"marked": 0})


def test_without_the_token_nothing_is_answered(client):
    for token in ("/", "/x/", client.url.path[:-2] + "/", "/é/"):
        quoted = urllib.parse.quote(token)
        status, said = client.ask("search", token=quoted)
        assert (status, list(said)) == (404, ["error"]), token
    # Long enough that nobody guesses it, and another one each time.
    assert len(client.url.path.strip("/")) == 32


def test_only_this_machines_own_names_are_answered(client, tmp_path):
    port = client.url.port
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", ""):
        status, said = client.ask("search", Host=host)
        assert (status, "answers as 127.0.0.1 and localhost" in said["error"]) == (421, True), host
        body = {"number": 0, "marked": True}
        assert client.mark(body, Host=host)[0] == 421
    assert client.ask("search", Host=f"localhost:{port}")[0] == 200
    assert not (tmp_path / "marks.txt").exists()


def test_it_listens_to_this_machine_only(session):
    server = servers.Server(session)
    assert server.socket.getsockname()[0] == "127.0.0.1"
    server.server_close()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"number": 0, "marked": True}, "text/plain", 415),
        ({"number": 0, "marked": True}, "application/x-www-form-urlencoded", 415),
        ({"number": "0", "marked": True}, "application/json", 400),
        ({"number": 0}, "application/json", 400),
        ({"number": 99, "marked": True}, "application/json", 404),
        ({"number": -1, "marked": True}, "application/json", 404),
        ({"number": 0, "marked": True, "path": "/etc/passwd"}, "application/json", 400),
        ([], "application/json", 400),
    ],
)
def test_a_mark_that_is_none_changes_nothing(client, tmp_path, body, kind, status):
    answered, said = client.mark(body, kind)
    assert (answered, list(said)) == (status, ["error"])
    assert not (tmp_path / "marks.txt").exists()


def test_marking_is_no_get(client):
    assert client.ask("mark?number=0&marked=true")[0] == 405
    assert client.ask("search", method="POST", body="")[0] == 405


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("nothing", 404, "not found"),
        ("record/99", 404, "numbers are from 0 to 26, got 99"),
        ("record/x", 404, "not found"),
        ("record/0/9.picture", 404, "not found"),
        ("record/0/views", 422, "How training makes its views is not known"),
        ("batch/0/0/0.picture", 422, "How training makes its views is not known"),
        ("record/0/../../../etc/passwd", 404, "not found"),
        ("record/0/..%2F..%2Fetc%2Fpasswd.picture", 404, ""),
        ("page.html.jinja", 404, "not found"),
        ("..%2Fserver.py", 404, "not found"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(client, path, status, message):
    answered, said = client.ask(path)
    assert answered == status and message in said["error"] and "\n" not in said["error"]


def test_an_unforeseen_error_is_said_and_the_next_request_answered(client, session, monkeypatch):
    def fail(*_):
        raise RuntimeError("planted here")

    monkeypatch.setattr(type(session.catalogue), "list_entries", fail)
    status, said = client.ask("search")
    assert (status, "planted here" in said["error"]) == (500, True)
    monkeypatch.undo()
    assert client.ask("search")[0] == 200


def test_a_damaged_record_is_said(client, session, monkeypatch):
    def fail(*_):
        raise UserError("the record is damaged")

    number = int(session.catalogue.find(Query(path="cat/04"))[0])
    monkeypatch.setattr(type(session.catalogue), "read_record", fail)
    told = client.ask(f"record/{number}/stored.picture")
    assert told == (422, {"error": "the record is damaged"})


def test_a_port_that_is_taken_is_an_error(client, session):
    with pytest.raises(UserError, match=f"must be one that is free, got {client.url.port}"):
        servers.Server(session, client.url.port)


_CODE = """\
import json, sys
from werkzeug.test import Client
from image_pipeline.browse.server import App
from image_pipeline.browse.session import Session

client = Client(App(Session(**json.loads(sys.argv[1])), "token"))
told = []
for address in json.loads(sys.argv[2]):
    answer = client.get(f"/token/{address}", base_url="http://127.0.0.1")
    told.append([address, answer.status_code])
slow = ("tensorflow", "keras", "tfx", "apache_beam")
print(json.dumps([told, [name for name in slow if name in sys.modules]]))
"""
PAGE = ["", "page.js", "page.css", "search", "search?label=cat&order=path", "record/0"]
PICTURES = [f"record/0/{name}.picture" for name in ("thumbnail", "original", "stored")]


def list_slow_imports(tmp_path, addresses, data, images):
    """Those that answers to all addresses needed, where it is known how views are made."""
    asked = {"folder": str(data), "images": str(images), "marks_path": str(tmp_path / "m.txt")}
    asked["overrides"] = [*VIEW, "feeding.augment=[flip_horizontal]"]
    command = [sys.executable, "-c", _CODE, json.dumps(asked), json.dumps(addresses)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, imported = json.loads(done.stdout.splitlines()[-1])
    assert told == [[address, 200] for address in addresses]
    return imported


def test_the_first_page_and_stored_and_original_pictures_need_no_tensorflow(browsed, tmp_path):
    of_copy = "record/25/thumbnail.picture"  # a duplicate's original
    addresses = [*PAGE, *PICTURES, of_copy, "search?file=dog/<b>.png"]
    assert list_slow_imports(tmp_path, addresses, browsed.data, browsed.images) == []


def test_nor_do_masks_over_them_but_views_do(tmp_path):
    scenes, data = tmp_path / "scenes", tmp_path / "data"
    write_scenes(scenes, 4)
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    ingest(scenes, data, masks=masks)
    addresses = [*PAGE, *PICTURES, "record/0/stored.picture?drawn"]
    assert list_slow_imports(tmp_path, addresses, data, scenes) == []
    assert "tensorflow" in list_slow_imports(tmp_path, ["record/0/views"], data, scenes)
