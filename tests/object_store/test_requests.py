"""How many requests things take, and how many of them wait for the store side by side."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import prepared
from image_pipeline.components.sources.folder import list_images
from image_pipeline.components.stores import remote
from image_pipeline.components.threads import REMOTE_THREADS, map_in_order
from tests.drawings import draw, encode_png
from tests.object_store.runs import ingest
from tests.object_store.store import skip_credentials
from tests.tiers import wide

pytestmark = [pytest.mark.beam, pytest.mark.wide]


def _write(path, content=b"data"):
    with files.write_atomically(path) as file:
        file.write(content)


ONE_REQUEST = {
    "upload": _write,
    "read": files.read_file,
    "stat": files.is_file,
    "delete": files.delete,
}


@pytest.fixture(params=["gs", "s3"])
def root(request, store):
    """The bucket's URI, by both schemes."""
    return f"{request.param}://bucket"


@pytest.mark.parametrize("kind", ONE_REQUEST)
def test_a_small_file_takes_one_request(root, store, kind):
    _write(f"{root}/small")
    store.control()
    ONE_REQUEST[kind](f"{root}/small")
    counted = store.control()["requests"]
    counted.pop("bucket", None)  # Once a process, and not waited for.
    assert counted == {kind: 1}


def test_a_large_file_is_written_and_read_in_parts(root, store):
    content = bytes(range(256)) * 2**16  # 16 MB
    with files.write_atomically(f"{root}/large") as file:
        for start in range(0, len(content), 2**20):
            file.write(content[start : start + 2**20])
            assert file.tell() == start + 2**20
    assert store.control()["requests"]["upload"] > 1
    assert b"".join(files.read_blocks(f"{root}/large", 10**7)) == content
    assert store.control()["requests"] == {"read": 2}
    assert files.read_file(f"{root}/large", 5, 9) == bytes([5, 6, 7, 8])


def test_a_large_file_that_is_open_is_read_where_it_is_read(root, store):
    content = bytes(range(256)) * 2**16 + b"the end"
    _write(f"{root}/open", content)
    store.control()
    with files.open_input(f"{root}/open") as file:
        assert store.control()["requests"] == {"read": 1, "stat": 1}
        assert file.seek(-7, os.SEEK_END) == len(content) - 7
        assert file.read() == b"the end"
        assert file.seek(5) == 5
        assert file.read(4) == bytes([5, 6, 7, 8])
        assert file.seek(-1, os.SEEK_CUR) == 8
        assert file.read(2**20) == content[8 : 8 + 2**20]
        assert store.control()["requests"] == {"read": 2}
        file.seek(0)
        assert file.read() == content
        assert file.read() == b""
        assert store.control()["requests"] == {"read": 1}


def test_a_small_file_that_is_open_was_one_request(root, store):
    _write(f"{root}/open")
    store.control()
    with files.open_input(f"{root}/open") as file:
        assert file.read() == b"data"
        assert file.seek(-1, os.SEEK_END) == 3
    assert store.control()["requests"] == {"read": 1}


def test_an_empty_file_has_no_blocks(root):
    with files.write_atomically(f"{root}/empty"):
        pass
    assert list(files.read_blocks(f"{root}/empty")) == []
    assert files.read_file(f"{root}/empty") == b""


@pytest.fixture(scope="module")
def many(store):
    """150 images of two classes."""
    for number in range(150):
        with files.write_atomically(f"{store.uri}/many/{number % 2}/{number}.png") as file:
            file.write(encode_png(draw(number, 2, 2)))
    yield f"{store.uri}/many"
    store.control(delay_s=0)


@pytest.mark.parametrize(
    ("threads", "at_once", "delay_s"), [(0, REMOTE_THREADS, 2), wide(5, 5, 0.2)]
)
def test_an_image_is_one_request_and_threads_read_side_by_side(
    many, store, tmp_path, threads, at_once, delay_s
):
    store.control(delay_s=delay_s)  # So long that all have asked before one is answered.
    ingest(many, str(tmp_path), threads=threads)
    counted = store.control(delay_s=0)
    counted["requests"].pop("bucket", None)
    assert counted["requests"] == {"list": 1, "read": 150}
    assert at_once / 2 < counted["at_once"] <= at_once


def test_besides_its_images_an_ingest_takes_few_requests(many, store):
    store.control()
    ingest(many, f"{store.uri}/many-data", shards=1)  # One chunk of images, and two shards.
    counted = store.control()["requests"]
    counted.pop("bucket", None)
    fences = 2 + 2 + 1 + 1 + 2 * 2 + 2  # List, chunk, plan, its output, shards, end.
    chunk = 4  # References; a mark that is not there yet; rows, for their sum and for the plan.
    # Whether a shard of that name is there, rows, images and index; lists, two of one, and whether
    # a manifest is beside that; and what the next ingest may take.
    shard, books = 4, 5 + 1
    # What was listed, for the job, to count it and for the next ingest; and the manifest.
    counts = 3 + 1
    reads = 150 + fences + chunk + 2 * shard + books + counts
    # The run's name, references, count; images, rows, mark; rows of shards, books; two shards with
    # index and description; lists and both forms of the index; manifest, and a copy; what the next
    # ingest may take, with the books and beside the data set.
    uploads = 3 + 3 + 4 + 2 * 3 + 4 + 2 + 2
    assert counted == {"list": 4, "stat": 2, "read": reads, "upload": uploads, "delete": 3}


def test_what_a_shard_takes_of_a_block_is_one_request(many, store, monkeypatch):
    monkeypatch.setattr(prepared, "_GAP_BYTES", 0)  # Or all of these small images would be near.
    store.control()
    ingest(many, f"{store.uri}/blocks-data", shards=10, splits={"train": 1.0})
    names, rows, payload_spans, indexes, fences, others = 10, 10, 10, 10, 2 * 10, 10 + 12
    reads = 150 + names + rows + payload_spans + indexes + fences + others
    assert store.control()["requests"]["read"] == reads


def test_a_long_list_is_a_request_a_page_and_holds_a_few_pages(store):
    """One folder of 2,600 files and one of 3: a first page, the folders, and theirs."""
    names = [f"a/{number:04}.jpg" for number in range(2600)] + [f"b/{n}.jpg" for n in range(3)]
    list(map_in_order(lambda name: _write(f"{store.uri}/long/{name}"), names, 16))
    store.control()
    listed = files.list_remote_tree(f"{store.uri}/long")
    assert next(listed)[:2] == ("a/0000.jpg", 4)
    assert [name for name, _, _ in listed] == names[1:]
    assert store.control()["requests"] == {"list": 1 + 1 + 3 + 1}


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_what_stands_for_a_folder_is_no_image(store, scheme):
    for name in ("", "cat/", "cat/2.jpg", "empty/"):
        _write(f"gs://bucket/marked/{name}", b"")
    for name in ("cat/1.jpg", ".hidden/1.jpg"):
        _write(f"gs://bucket/marked/{name}")
    found = list_images(f"{scheme}://bucket/marked")
    assert [(ref.path, ref.size_bytes) for ref in found] == [("cat/1.jpg", 4), ("cat/2.jpg", 0)]


def test_a_name_that_obstore_refuses_is_said(store):
    _write("gs://bucket/odd//1.jpg")
    assert [ref.path for ref in list_images("gs://bucket/odd")] == ["/1.jpg"]
    message = r's3://bucket/odd: .*"odd//1.jpg" contained empty path segment; rename it'
    with pytest.raises(UserError, match=message):
        list(list_images("s3://bucket/odd"))


@pytest.mark.parametrize("name", ["50 %.png", "a#b?.png", "ü~.png", "[1]*.png", "a\\b.png"])
def test_names_are_the_same_by_both_schemes(store, name):
    _write(f"s3://bucket/names/{name}")
    assert files.read_file(f"gs://bucket/names/{name}") == b"data"
    files.delete(f"gs://bucket/names/{name}")
    _write(f"gs://bucket/names/{name}")
    assert files.read_file(f"s3://bucket/names/{name}") == b"data"
    assert [path for path, _, _ in files.list_remote_tree("s3://bucket/names")] == [name]
    files.delete(f"s3://bucket/names/{name}")
    assert not files.exists("gs://bucket/names")


def test_a_long_list_of_s3_is_a_request_a_page(store):
    names = [f"{number:04}.jpg" for number in range(2100)]
    list(map_in_order(lambda name: _write(f"s3://bucket/pages/{name}"), names, 16))
    store.control()
    assert [path for path, _, _ in files.list_remote_tree("s3://bucket/pages")] == names
    assert store.control()["requests"] == {"list": 3}
    files.delete_tree("s3://bucket/pages")
    assert store.control()["requests"] == {"list": 3, "delete": 3}


def test_a_client_is_kept_until_a_pipeline_has_other_options(store):
    first = remote._find_store(store.uri)
    assert remote._find_store(f"{store.uri}/other") is first
    FileSystems.set_options(PipelineOptions([]))
    second = remote._find_store(store.uri)
    assert second is not first
    assert remote._find_store(store.uri) is second


def test_a_process_that_is_spawned_has_clients_of_its_own(store):
    _write(f"{store.uri}/shared")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, skip_credentials) as pool:
        found = list(pool.map(files.read_file, ["gs://bucket/shared", "s3://bucket/shared"]))
    assert found == [b"data", b"data"]
