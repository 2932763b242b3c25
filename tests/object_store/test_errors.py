"""A store or bucket that is not there is said in one message, soon."""

import gc
import threading

import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.records import match_files
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.span_pattern import list_spans
from image_pipeline.components.stores import remote
from image_pipeline.run.preflight import check_output, survey_images
from tests.object_store.runs import analyze

pytestmark = pytest.mark.beam


@pytest.fixture
def silent(store, monkeypatch):
    """The store takes requests and answers none; clients wait for a second."""
    monkeypatch.setattr(remote, "ANSWER_TIMEOUT_S", 1)
    before = set(threading.enumerate())
    store.control(fault="silent", kind="any", times=1000)
    yield
    store.control(fault="none", kind="any", times=0)
    for thread in set(threading.enumerate()) - before:  # Or the next test would count their calls.
        thread.join(60)
        assert not thread.is_alive()


def _write(path, size_bytes=1):
    with files.write_atomically(path) as file:
        file.write(bytes(size_bytes))


CHECKS = {
    "s3": lambda: survey_images("s3://no-bucket/images", IngestOptions()),
    "images": lambda: survey_images("gs://no-bucket/images", IngestOptions()),
    "spans": lambda: list_spans("gs://no-bucket/days/day-{SPAN}"),
    "output": lambda: check_output("gs://no-bucket/data", "images"),
}
USES = {
    "verify": lambda: verify_data_set("gs://no-bucket/data"),
    "analyze": lambda: analyze("gs://no-bucket/data", "gs://no-bucket/graph"),
    "read": lambda: match_files(["gs://no-bucket/data/Split-train/*"]),
    "write": lambda: _write("gs://no-bucket/data"),
    "write s3": lambda: _write("s3://no-bucket/data"),
    "write much": lambda: _write("gs://no-bucket/data", 20 * 2**20),
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_missing_bucket_is_named(store, check):
    with pytest.raises(UserError, match=r"(gs|s3)://no-bucket/\w+: there is no such bucket; check"):
        CHECKS[check]()


@pytest.mark.parametrize("use", USES)
def test_whoever_uses_a_missing_bucket_says_so_in_one_message(store, use):
    with pytest.raises(UserError, match=r"(gs|s3)://no-bucket") as caught:
        USES[use]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("check", CHECKS)
def test_a_silent_store_is_not_waited_for(silent, check):
    with pytest.raises(
        UserError, match=r"(gs|s3)://no-bucket/\w+: its store did not answer within 1 s"
    ):
        CHECKS[check]()


def test_patterns_of_a_silent_store_are_not_waited_for(silent):
    with pytest.raises(UserError, match=r"gs://no-bucket: its store did not answer within 1 s"):
        match_files(["gs://no-bucket/x*"])


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_what_is_missing_in_a_bucket_is_missing(store, scheme):
    path = f"{scheme}://bucket/nothing"
    assert not files.exists(path)
    for read in (files.read_file, files.open_input):
        with pytest.raises(FileNotFoundError, match="nothing"):
            read(path)
    files.delete(path)
    files.delete_tree(path)


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_a_large_file_of_which_a_part_is_refused_is_never_there(store, scheme):
    path = f"{scheme}://bucket/refused"
    message = rf"{scheme}://bucket/refused: its store refused.*403"
    store.control(fault="403", kind="upload", times=1000)
    with pytest.raises(UserError, match=message), files.write_atomically(path) as file:
        file.write(bytes(20 * 2**20))
    store.control(fault="none", kind="any", times=0)
    gc.collect()
    assert not files.exists(path)


@pytest.mark.whole
@pytest.mark.parametrize("scheme", ["gs", "s3"])
@pytest.mark.parametrize("size_bytes", [6, 20 * 2**20])
def test_a_failed_write_leaves_nothing(store, size_bytes, scheme):
    path = f"{scheme}://bucket/failed"
    store.control()
    with pytest.raises(KeyError), files.write_atomically(path) as file:
        file.write(bytes(size_bytes))
        raise KeyError
    assert store.control()["requests"] == {}
    assert not files.exists(path)
