"""The store answers as Google's does, on connections that stay open."""

import http.client
import random
import socket
import urllib.parse

import pytest
from google.cloud import storage

from tests.object_store.server import BUCKET

pytestmark = pytest.mark.e2e

UPLOAD = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name="
LIST = f"/storage/v1/b/{BUCKET}/o"


@pytest.fixture
def connection(store):
    """One connection, for all of a test's requests."""
    opened = http.client.HTTPConnection(urllib.parse.urlsplit(store.address).netloc, timeout=120)
    opened.connect()
    opened.auto_open = 0  # A second one is an error.
    yield opened
    opened.close()


@pytest.fixture
def bucket(store):
    """Google's own client of the bucket."""
    return storage.Client.create_anonymous_client().bucket(BUCKET)


def _ask(connection, *request, **more):
    connection.request(*request, **more)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_an_empty_object_is_uploaded_again_and_again_on_one_connection(connection):
    for number in range(20):  # TensorFlow makes a folder so.
        status, _ = _ask(connection, "POST", f"{UPLOAD}empty/{number}/", body=b"")
        assert status == 200
        assert _ask(connection, "GET", f"/{BUCKET}/empty/{number}/") == (200, b"")


def test_a_body_in_chunks_is_read_to_its_very_end(connection):
    headers = {"Transfer-Encoding": "chunked", "Content-Length": "99"}  # TensorFlow sends both.
    for body, content in [(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", b"onetwo"), (b"0\r\n\r\n", b"")]:
        status, _ = _ask(connection, "POST", f"{UPLOAD}chunks", body=body, headers=headers)
        assert status == 200
        assert _ask(connection, "GET", f"/{BUCKET}/chunks") == (200, content)


def test_who_asks_whether_to_go_on_is_answered_before_the_body(store):
    host, port = urllib.parse.urlsplit(store.address).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        head = (
            f"POST {UPLOAD}expected HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"ok")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_hundreds_connect_at_once(store):
    host, port = urllib.parse.urlsplit(store.address).netloc.split(":")
    connections = [socket.create_connection((host, int(port)), timeout=120) for _ in range(200)]
    for connection in connections:
        connection.sendall(f"GET {LIST}?maxResults=1 HTTP/1.1\r\n\r\n".encode())
    for connection in connections:
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.close()


@pytest.mark.parametrize("size_bytes", [0, 1, 2**18, 2**20 + 1])
@pytest.mark.parametrize("part_bytes", [None, 2**18])
def test_what_google_s_client_writes_it_reads_in_whole_and_in_part(bucket, size_bytes, part_bytes):
    content = random.Random(size_bytes).randbytes(size_bytes)
    blob = bucket.blob(f"written/{size_bytes} ü/%2F")
    if part_bytes is None:
        blob.upload_from_string(content)
    else:
        with blob.open("wb", chunk_size=part_bytes) as file:
            file.write(content)
    assert blob.download_as_bytes() == content
    assert blob.exists() and bucket.get_blob(blob.name).size == size_bytes
    if size_bytes > 10:
        assert blob.download_as_bytes(start=3, end=9) == content[3:10]


def test_a_list_has_pages_folders_and_a_first_name(bucket):
    names = [f"listed/{folder}/{number}" for folder in "ab" for number in range(4)]
    for name in [*names, "listed/a-", "listed/z"]:
        bucket.blob(name).upload_from_string(b"")
    listed = [blob.name for blob in bucket.list_blobs(prefix="listed/", page_size=3)]
    assert listed == ["listed/a-", *names, "listed/z"]  # "-" is before "/".
    tops = bucket.list_blobs(prefix="listed/", delimiter="/", page_size=1)
    assert [blob.name for blob in tops] == ["listed/a-", "listed/z"]
    assert tops.prefixes == {"listed/a/", "listed/b/"}
    later = bucket.list_blobs(prefix="listed/", start_offset="listed/b/2")
    assert [blob.name for blob in later] == [*names[-2:], "listed/z"]


def test_what_was_damaged_on_its_way_is_refused(bucket):
    blob = bucket.blob("damaged")
    blob.crc32c = "AAAAAA=="
    with pytest.raises(Exception, match="Provided CRC32C AAAAAA== does not match"):
        blob.upload_from_string(b"content", checksum=None)
    assert not blob.exists()


def test_several_are_deleted_and_copied(bucket):
    for name in ("copied", "other"):
        bucket.blob(name).upload_from_string(name)
    bucket.copy_blob(bucket.blob("copied"), bucket, "copy")
    assert bucket.blob("copy").download_as_bytes() == b"copied"
    with bucket.client.batch(raise_exception=False) as batch:
        for name in ("copied", "missing", "other"):
            bucket.delete_blob(name)
    assert [answer.status_code for answer in batch._responses] == [204, 404, 204]
    assert not bucket.blob("copied").exists()


@pytest.mark.parametrize("fault", ["drop", "half", "503"])
def test_a_fault_happens_as_often_as_is_asked_for(store, fault):
    store.control(fault=fault, kind="list", times=2)
    for is_faulty in (True, True, False):
        host = urllib.parse.urlsplit(store.address).netloc
        connection = http.client.HTTPConnection(host, timeout=120)
        try:
            status, _ = _ask(connection, "GET", LIST)
        except (http.client.HTTPException, ConnectionError):
            status = None
        assert status == ({"503": 503}.get(fault) if is_faulty else 200)
    assert store.control()["faults"] == 2
