"""What obstore does not do by itself: Ctrl-C, Azure's answers, and requests it does not repeat."""

import datetime
import os
import signal
import threading

import hypothesis
import obstore
import pytest
from hypothesis import strategies as st

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import objects
from image_pipeline.components.stores.objects import Address, ObjectStore, find_address, list_files

pytestmark = pytest.mark.unit

BUCKET = Address("az", "az://bucket/", "bucket")


@pytest.fixture
def bucket(monkeypatch):
    """A bucket in memory; nobody waits before a request is sent again."""
    monkeypatch.setattr(objects, "_WAITS_S", (0, 0))
    return ObjectStore(BUCKET, obstore.store.MemoryStore())


def _fail(monkeypatch, name, *errors):
    """Has obstore's function fail with these errors first; returns how often it was called."""
    real, left, calls = getattr(obstore, name), list(errors), []

    def call(*args, **options):
        calls.append(args)
        if left:
            raise left.pop(0)
        return real(*args, **options)

    monkeypatch.setattr(obstore, name, call)
    return calls


def test_ctrl_c_does_not_wait_for_the_store(bucket, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(obstore, "head", lambda *_: released.wait())
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell may ignore it.
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        bucket.stat("az://bucket/name")
    assert not released.is_set()
    released.set()
    timer.join()
    signal.signal(signal.SIGINT, before)


def test_what_is_missing_is_no_matter_to_a_delete(bucket, monkeypatch):
    for name in ("a", "b"):
        obstore.put(bucket._store, name, b"data")
    calls = _fail(monkeypatch, "delete", FileNotFoundError("missing is one of them"))
    bucket.delete(["az://bucket/a", "az://bucket/missing", "az://bucket/b"])
    assert [names for _, names in calls] == [["a", "missing", "b"], "a", "missing", "b"]
    assert list(bucket.list_below("az://bucket")) == []


def test_a_failed_request_is_sent_three_times(bucket, monkeypatch):
    obstore.put(bucket._store, "a", b"data")
    broken = obstore.exceptions.GenericError("request or response body error")
    calls = _fail(monkeypatch, "get", broken, broken)
    assert bucket.read("az://bucket/a", 0, None) == b"data"
    assert len(calls) == 3
    calls = _fail(monkeypatch, "get", broken, broken, broken)
    with pytest.raises(OSError, match=r"^request or response body error$"):
        bucket.read("az://bucket/a", 0, None)
    assert len(calls) == 3


def test_a_refused_request_is_not_sent_again(bucket, monkeypatch):
    refused = obstore.exceptions.GenericError("non-2xx status code: 409 Conflict\n\nDebug source:")
    calls = _fail(monkeypatch, "get", refused)
    with pytest.raises(OSError, match=r"^non-2xx status code: 409 Conflict$"):
        bucket.read("az://bucket/a", 0, None)
    assert len(calls) == 1


def test_a_list_goes_on_where_it_ended(bucket, monkeypatch):
    monkeypatch.setattr(objects, "_PAGE_FILES", 2)
    names = [f"{number}" for number in range(7)]
    for name in names:
        obstore.put(bucket._store, f"folder/{name}", b"data")
    real, lists = obstore.list, []

    def list_until_it_ends(store, prefix, offset, chunk_size):
        lists.append(offset)
        pages = real(store, prefix, offset=offset, chunk_size=chunk_size)
        yield next(pages)
        if len(lists) < 3:
            raise obstore.exceptions.GenericError("response body error")
        yield from pages

    monkeypatch.setattr(obstore, "list", list_until_it_ends)
    found = [uri for uri, _, _ in bucket.list_below("az://bucket/folder")]
    assert found == [f"az://bucket/folder/{name}" for name in names]
    assert lists == [None, "folder/1", "folder/3"]


def test_what_a_browser_leaves_for_a_folder_is_no_file(bucket, monkeypatch):
    sizes = {"a": 4, "a-b": 0, "a/": 0, "b": 0, "b-c": 1, "b/": 0, "c/": 0}
    for name, size in sizes.items():
        if not name.endswith("/"):
            obstore.put(bucket._store, name, bytes(size))
    now = datetime.datetime.now()
    page = [
        {"path": name.rstrip("/"), "size": size, "last_modified": now}
        for name, size in sizes.items()
    ]
    monkeypatch.setattr(obstore, "list", lambda *_, **__: iter([page]))
    found = [(uri.rpartition("/")[2], size) for uri, size, _ in bucket.list_below("az://bucket")]
    assert found == [("a", 4), ("a-b", 0), ("b", 0), ("b-c", 1)]


@pytest.mark.e2e
def test_a_fork_is_told_instead_of_left_waiting(bucket):
    obstore.put(bucket._store, "a", b"data")
    assert bucket.stat("az://bucket/a")[0] == 4
    source, target = os.pipe()
    if (process := os.fork()) == 0:
        signal.alarm(60)  # Ends it if it waits.
        try:
            bucket.stat("az://bucket/a")
        except UserError as error:
            os.write(target, str(error).encode())
        os._exit(0)
    os.close(target)
    with open(source) as told:
        assert told.read() == (
            "s3:// and az:// cannot be read in a fork of a process that has done so; start "
            'processes by spawn: multiprocessing.get_context("spawn").'
        )
    assert os.waitpid(process, 0)[1] == 0


def test_a_name_that_cannot_be_used_is_said(bucket):
    message = r"az://bucket/a//b: .*contained empty path segment; rename it, or use"
    with pytest.raises(UserError, match=message):
        bucket.read("az://bucket/a//b", 0, None)


def test_a_container_is_one_of_the_environment_s_account(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    with pytest.raises(UserError, match=r"^az://bucket/: incomplete credentials"):
        files.read_file("az://bucket/a")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "someone")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    assert isinstance(objects.open_objects(BUCKET)._store, obstore.store.AzureStore)
    objects.open_objects.cache_clear()


@pytest.mark.parametrize(("has_answered", "times"), [(False, 1), (True, 3)])
def test_a_store_that_never_answered_is_not_waited_for(bucket, monkeypatch, has_answered, times):
    obstore.put(bucket._store, "a", b"data")
    if has_answered:
        bucket.stat("az://bucket/a")
    refused = obstore.exceptions.GenericError("Error performing GET: tcp connect error")
    calls = _fail(monkeypatch, "get", *[refused] * 3)
    problem = r"^az://bucket/a: its store does not answer .* check AZURE_ENDPOINT"
    with pytest.raises(UserError, match=problem):
        bucket.read("az://bucket/a", 0, None)
    assert len(calls) == times


DFS = "abfss://box@someone.dfs.core.windows.net"
HTTPS = "https://someone.blob.core.windows.net/box"


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("s3://bucket/a/b", Address("s3", "s3://bucket/", "bucket")),
        ("s3://bucket", Address("s3", "s3://bucket/", "bucket")),
        ("s3a://bucket/a", Address("s3", "s3a://bucket/", "bucket")),
        ("az://box/a", Address("az", "az://box/", "box")),
        ("abfs://box", Address("az", "abfs://box/", "box")),
        (f"{DFS}/a", Address("az", f"{DFS}/", "box", "someone")),
        (
            "wasbs://b@c.blob.core.windows.net/a/@",
            Address("az", "wasbs://b@c.blob.core.windows.net/", "b", "c"),
        ),
        (f"{HTTPS}/a/b", Address("az", f"{HTTPS}/", "box", "someone")),
        ("gs://bucket/a", None),
        ("hdfs://host/a", None),
        ("https://example.com/box/a", None),
    ],
)
def test_a_uri_names_its_bucket(uri, address):
    assert find_address(uri) == address


class Pages:
    """Pages of a bucket with these names, and how many were asked for."""

    def __init__(self, names, most=5):
        self.names, self.most, self.asked = sorted(names), most, 0

    def __call__(self, prefix, behind):
        start = f"{prefix}/" if prefix else ""
        names = [n for n in self.names if n.startswith(start) and (behind is None or n > behind)]
        for first in range(0, len(names), self.most):
            self.asked += 1
            yield [{"path": name} for name in names[first : first + self.most]]


def _names(pages, prefix=""):
    return [item["path"] for item in list_files(pages, prefix)]


@hypothesis.given(
    st.sets(
        st.lists(st.sampled_from(["a", "b", "a-", "a0", "é"]), min_size=1, max_size=4).map(
            "/".join
        ),
        max_size=60,
    ),
    st.integers(1, 7),
    st.integers(1, 4),
)
def test_all_names_are_listed_in_order(names, most, folders_a_page):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "_FOLDERS_A_PAGE", folders_a_page)
        patch.setattr(objects, "_BLOCK_PAGES", 2)
        assert _names(Pages(names, most)) == sorted(names)


@pytest.mark.parametrize("files_a_folder", [1, 4, 7, 60])
def test_folders_of_any_size_are_listed(monkeypatch, files_a_folder):
    monkeypatch.setattr(objects, "_FOLDERS_A_PAGE", 1)
    names = [f"images/{n:02}/{m:03}" for n in range(30) for m in range(files_a_folder)]
    pages = Pages([*names, "images/00", "images/z", "other/a"])
    assert _names(pages, "images") == ["images/00", *names, "images/z"]
    assert pages.asked <= 2 * (len(names) / pages.most + 2) + 30


def test_large_folders_are_listed_side_by_side(monkeypatch):
    """While the first folder's pages are taken, other folders' are, too."""
    names = [f"{n:02}/{m:03}" for n in range(8) for m in range(50)]
    pages, taken = Pages(names), []
    real = objects._take_pages

    def take(found):
        taken.append(found.folder)
        return real(found)

    monkeypatch.setattr(objects, "_take_pages", take)
    listed = list_files(pages, "")
    assert next(listed)["path"] == "00/000"
    assert len(set(taken)) >= 7
    assert ["00/000", *(item["path"] for item in listed)] == names


def test_who_stops_early_has_asked_for_little(monkeypatch):
    monkeypatch.setattr(objects, "_THREADS", 2)
    pages = Pages([f"{n:03}/{m:03}" for n in range(100) for m in range(50)])
    listed = list_files(pages, "")
    assert next(listed)["path"] == "000/000"
    listed.close()
    assert pages.asked <= 2 + 3 * 10
