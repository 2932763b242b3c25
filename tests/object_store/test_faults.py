"""A store that drops connections or is busy is asked again; one that goes on so is one message."""

import itertools
import time
import types

import numpy as np
import pytest
from google.api_core.retry import retry_unary

from image_pipeline.components import files
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.stores import google, objects, remote
from tests.object_store.runs import analyze, ingest, read_batches, read_tree, train

pytestmark = pytest.mark.beam

FAULTS = ("drop", "half", "503")
KINDS = ("list", "stat", "read", "upload", "delete")
SCHEMES = ("gs", "s3")
# Answers of S3 that have no body do not end in the middle of it.
EACH = [
    (scheme, kind, fault)
    for scheme, kind, fault in itertools.product(SCHEMES, KINDS, FAULTS)
    if (scheme, fault) != ("s3", "half") or kind not in ("stat", "upload")
]
MESSAGE = r"(gs|s3)://bucket\S*: its store refused or did not answer \(.+\); check the address"


@pytest.fixture(autouse=True)
def whole(store):
    """What was asked for ends with the test."""
    yield
    store.control(fault="none", kind="any", times=0)


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Before it asks again, Google's client waits for a twentieth of its seconds."""
    waiting = {"sleep": lambda seconds: time.sleep(seconds / 20), "monotonic": time.monotonic}
    monkeypatch.setattr(retry_unary, "time", types.SimpleNamespace(**waiting))


@pytest.fixture
def impatient(store, monkeypatch):
    """Clients ask again for a second, not for minutes; TensorFlow's are so in all tests."""
    monkeypatch.setattr(google, "_RETRIES", 1)
    monkeypatch.setattr(objects, "_RETRIES", {"max_retries": 1})
    monkeypatch.setattr(objects, "_WAITS_S", ())
    monkeypatch.setattr(google, "_RETRY_S", 1)  # Of all clients: a pipeline's options make one.
    remote.forget_stores()
    yield
    remote.forget_stores()


def _write(uri, size_bytes=1):
    with files.write_atomically(uri) as file:
        for start in range(0, size_bytes, 2**20):
            file.write(b"x" * min(2**20, size_bytes - start))


CALLS = {
    "list": lambda uri: list(files.list_remote_tree(uri.rpartition("/")[0])),
    "read": files.read_file,
    "stat": files.is_file,
    "upload": _write,
    "delete": files.delete,
}


@pytest.mark.parametrize(("scheme", "kind", "fault"), EACH)
def test_our_own_requests_are_sent_again(store, kind, fault, scheme):
    uri = f"{scheme}://bucket/faults-{kind}/{scheme}/{fault}"
    _write(uri)
    expected = CALLS[kind](uri)
    if kind == "delete":
        _write(uri)
    store.control(fault=fault, kind=kind, times=2)
    found = CALLS[kind](uri)
    assert store.control()["faults"] == 2
    assert found == expected
    assert files.is_file(uri) == (kind != "delete")


@pytest.mark.whole
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_large_file_whose_parts_fail_arrives_whole(store, fault, scheme):
    uri = f"{scheme}://bucket/faults-large"
    size_bytes = 20 * 2**20 + 1
    store.control(fault=fault, kind="upload", times=2)
    _write(uri, size_bytes)
    assert store.control()["faults"] == 2
    assert files.read_file(uri) == b"x" * size_bytes


@pytest.mark.parametrize(("scheme", "kind", "fault"), EACH)
def test_our_own_requests_that_fail_for_good_are_one_message(store, impatient, kind, fault, scheme):
    uri = f"{scheme}://bucket/lost/{kind}"
    store.control(fault=fault, kind=kind, times=10**6)
    with pytest.raises(UserError, match=MESSAGE) as caught:
        CALLS[kind](uri)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def outlasting(store):
    """Where a data set, a graph and a model are written while connections are dropped."""
    return f"{store.uri}/outlasting"


def test_an_ingest_outlasts_a_store_that_drops(store, places, outlasting):
    store.control(fault="drop", kind="each", times=2)
    ingest(f"{store.uri}/images", f"{outlasting}/data")
    assert store.control()["faults"] >= 2 * len(KINDS)
    assert read_tree(f"{outlasting}/data") == read_tree(f"{places['local']}/data")


@pytest.mark.wide
def test_an_analysis_outlasts_a_store_that_drops(store, places, graphs, outlasting):
    store.control(fault="drop", kind="each", times=2)
    found = analyze(f"{places['store']}/data", f"{outlasting}/graph")
    assert store.control()["faults"] >= 2 * len(KINDS)
    assert found == graphs["local"]


@pytest.mark.wide
def test_a_training_outlasts_a_store_that_drops(store, places, graphs, trained, outlasting):
    store.control(fault="drop", kind="each", times=2)
    metrics, answer = train(places["store"], outlasting)
    assert store.control()["faults"] >= 2 * len(KINDS)
    assert metrics == trained[0]
    np.testing.assert_array_equal(answer, trained[1])


@pytest.mark.parametrize("kind", ["list", "read", "upload"])
def test_an_analysis_whose_store_fails_for_good_ends_with_one_message(
    store, places, impatient, kind
):
    store.control(fault="drop", kind=kind, times=10**6)
    with pytest.raises(UserError, match=r"gs://bucket.*(did not answer|attempts failed)") as caught:
        analyze(f"{places['store']}/data", f"{store.uri}/failed-{kind}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_batches_whose_store_fails_for_good_end_with_one_message(store, places, graphs, impatient):
    store.control(fault="drop", kind="read", times=10**6)
    with pytest.raises(Exception) as caught:
        read_batches(places["store"], "eval")
    assert find_user_error(caught.value) is not None
