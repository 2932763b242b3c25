"""Reads of Google's store: which requests are sent, and what is made of each answer."""

import base64
import collections
import http.server
import logging
import re
import threading
import time

import google_crc32c
import hypothesis
import pytest
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import GoogleAPICallError, NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from hypothesis import strategies as st

from image_pipeline.components import files
from image_pipeline.components.stores import google
from image_pipeline.components.stores.google import GoogleStore, list_files
from tests.object_store.bucket import Bucket

pytestmark = pytest.mark.unit

CONTENT = bytes(range(256)) * 40


def _hash(data):
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


class _Store:
    """Answers with what a test puts into its queue, then with the content; keeps the requests."""

    def __init__(self):
        self.answers = collections.deque()
        self.requests = []

    def handle(self, handler):
        self.requests.append((handler.path, handler.headers.get("Range")))
        status, body, headers = (
            self.answers.popleft() if self.answers else (200, CONTENT, {"x-goog-hash": GOOD})
        )
        handler.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


GOOD = f"crc32c={_hash(CONTENT)},md5=abc=="


@pytest.fixture
def store():
    kept = _Store()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            kept.handle(self)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        kept.address = f"http://127.0.0.1:{server.server_port}"
        yield kept
        server.shutdown()
        thread.join()


def make_reader(address):
    options = ClientOptions(api_endpoint=address)
    return GoogleStore(
        storage.Client("project", credentials=AnonymousCredentials(), client_options=options)
    )


@pytest.fixture
def reader(store):
    return make_reader(store.address)


def test_a_whole_file_is_one_request(store, reader):
    assert reader.read("gs://bucket/a folder/100 %.png", 0, None) == CONTENT
    path = "/download/storage/v1/b/bucket/o/a%20folder%2F100%20%25.png?alt=media"
    assert store.requests == [(path, None)]


@pytest.mark.parametrize(
    ("start", "end", "asked"), [(0, 10, "bytes=0-9"), (5, 9, "bytes=5-8"), (7, None, "bytes=7-")]
)
def test_a_part_is_asked_for_as_a_range(store, reader, start, end, asked):
    part = CONTENT[start:end]
    store.answers.append((206, part, {"x-goog-hash": GOOD}))  # The checksum is the whole file's.
    assert reader.read("gs://b/name", start, end) == part
    assert store.requests[0][1] == asked


def test_a_part_behind_the_end_is_empty(store, reader):
    store.answers.append((416, b"not satisfiable", {}))
    assert reader.read("gs://b/name", 10**6, None) == b""


def test_of_an_empty_part_nothing_is_asked():
    assert files.read_file("gs://bucket/name", 5, 5) == b""


def test_what_is_damaged_on_the_way_is_refused(store, reader):
    damaged = b"\1" + CONTENT[1:]
    store.answers.append((200, damaged, {"x-goog-hash": GOOD}))
    message = re.escape(f"10240 bytes arrived with CRC-32C {_hash(damaged)}, not {_hash(CONTENT)}")
    with pytest.raises(OSError, match=message):
        reader.read("gs://b/name", 0, None)


def test_what_is_stored_packed_stays_packed(store, reader):
    headers = {"Content-Encoding": "gzip", "x-goog-hash": GOOD}
    store.answers.append((200, CONTENT, headers))
    assert reader.read("gs://b/name", 0, None) == CONTENT


def test_a_store_that_cannot_answer_now_is_asked_again(store, reader):
    store.answers += [(503, b"busy", {}), (429, b"slow down", {})]
    assert reader.read("gs://b/name", 0, None) == CONTENT
    assert len(store.requests) == 3


def test_a_refusal_carries_its_status_and_reason(store, reader):
    store.answers += [(404, b"no such object", {}), (403, b"not allowed", {})]
    with pytest.raises(NotFound, match="no such object"):
        reader.read("gs://b/name", 0, None)
    with pytest.raises(GoogleAPICallError, match=r"403 .*not allowed"):
        reader.read("gs://b/name", 0, None)


def test_the_environment_s_proxy_is_used(store, monkeypatch):
    monkeypatch.setenv("http_proxy", store.address)
    monkeypatch.setenv("no_proxy", "")
    reader = make_reader("http://storage.example")
    assert reader.read("gs://b/name", 0, None) == CONTENT
    path = "http://storage.example/download/storage/v1/b/b/o/name?alt=media"
    assert store.requests == [(path, None)]


def test_the_environment_s_certificates_are_trusted(tmp_path, monkeypatch):
    authorities = tmp_path / "authorities.pem"
    authorities.write_text("")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authorities))
    pool = google._make_pool("https://storage.example")
    assert pool.connection_pool_kw["ca_certs"] == str(authorities)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    pool = google._make_pool("https://storage.example")
    assert pool.connection_pool_kw["ca_cert_dir"] == str(tmp_path)


def test_threads_keep_their_connections(reader):
    assert reader._http.http.connection_pool_kw["maxsize"] == 256


def test_attempts_to_find_credentials_are_not_told(monkeypatch, caplog):
    loggers = [
        logging.getLogger(f"apache_beam.{name}") for name in ("utils.retry", "internal.gcp.auth")
    ]
    loggers.append(logging.getLogger("google.auth._default"))

    def create_client(options):
        for logger in loggers:
            logger.warning("%s of %s", logger.name, options)

    monkeypatch.setattr("apache_beam.io.gcp.gcsio.create_storage_client", create_client)
    monkeypatch.setattr(google, "GoogleStore", lambda client: client)
    google.open_google.__wrapped__("options")
    assert caplog.messages == ["apache_beam.internal.gcp.auth of options"]
    loggers[0].warning("later")
    assert caplog.messages[1:] == ["later"]


class Pages:
    """Pages of a bucket with these names, and how many were asked for."""

    def __init__(self, names, most=5):
        self.bucket = Bucket("bucket")
        for name in names:
            self.bucket.write(name, b"x" * len(name), "")
        self.most = most
        self.asked = 0

    def __call__(self, prefix, fields, delimiter="", pageToken=""):
        self.asked += 1
        page = self.bucket.list_page(prefix, delimiter, pageToken, self.most)
        answer = {"items": [each.describe("bucket") for each in page.objects]}
        answer |= {"prefixes": page.folders} if page.folders else {}
        return answer | ({} if page.next_name is None else {"nextPageToken": page.next_name})


def _names(pages, prefix=""):
    return [name for name, _, _ in list_files(pages, prefix)]


@hypothesis.given(
    st.sets(
        st.lists(st.sampled_from(["a", "b", "a-", "a0", "é", ""]), min_size=1, max_size=4).map(
            "/".join
        ),
        max_size=60,
    ),
    st.integers(1, 7),
)
def test_all_names_are_listed_in_the_order_of_their_bytes(names, most):
    expected = sorted((name for name in names if name), key=str.encode)
    assert _names(Pages([name for name in names if name], most)) == expected


@pytest.mark.parametrize("files_a_folder", [1, 4, 7, 60])
def test_folders_of_any_size_are_listed(monkeypatch, files_a_folder):
    monkeypatch.setattr(google, "_FOLDERS_A_PAGE", 1)
    names = [f"images/{n:02}/{m:03}" for n in range(30) for m in range(files_a_folder)]
    pages = Pages([*names, "images/00", "images/z", "other/a"])
    assert _names(pages, "images/") == ["images/00", *names, "images/z"]
    assert pages.asked <= 4 * (len(names) / pages.most + 2)


def test_a_file_s_size_and_time_of_change_are_told():
    pages = Pages(["abc"])
    ((name, size_bytes, changed_s),) = list_files(pages, "")
    assert (name, size_bytes) == ("abc", 3)
    assert changed_s == pytest.approx(time.time(), abs=600)


def test_who_stops_early_has_asked_for_little(monkeypatch):
    monkeypatch.setattr(google, "_THREADS", 2)
    pages = Pages([f"{n:03}/{m:03}" for n in range(100) for m in range(50)])
    listed = list_files(pages, "")
    assert next(listed)[0] == "000/000"
    listed.close()
    assert pages.asked <= 2 + 3 * 10
