"""What Beam reads: by a file system that keeps whatever is closed, as Beam's do."""

import io
import os
import sys
import tempfile

import pytest
from apache_beam.io.filesystem import FileMetadata, MatchResult

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import remote
from image_pipeline.components.stores.beam_files import BeamFiles
from image_pipeline.components.stores.remote import check_order

pytestmark = pytest.mark.unit


class FakeSystem:
    """Keeps files in memory: each is there once it is closed, whatever came before."""

    def __init__(self):
        self.content = {}

    def create(self, uri, compression_type):
        """Opens a file for writing."""
        content = self.content

        class Kept(io.BytesIO):
            def close(self):
                content[uri] = self.getvalue()
                super().close()

        if "no-bucket" in uri:
            raise PermissionError("not yours")
        return Kept()

    def open(self, uri, compression_type):
        """Opens a file for reading."""
        return io.BytesIO(self.content[uri])

    def exists(self, uri):
        """Tells whether there is a file."""
        return uri in self.content

    def size(self, uri):
        """A file's size in bytes."""
        return len(self.content[uri])

    def match(self, patterns, limits):
        """All files that begin with a folder's name, the last written first."""
        ((pattern, limit),) = zip(patterns, limits, strict=True)
        names = [name for name in self.content if name.startswith(pattern.removesuffix("**"))]
        found = [FileMetadata(name, len(self.content[name])) for name in reversed(names)]
        return [MatchResult(pattern, found[:limit])]

    def delete(self, uris):
        """Deletes files, which must be there."""
        for uri in uris:
            del self.content[uri]


@pytest.fixture
def system(monkeypatch):
    fake = FakeSystem()
    monkeypatch.setattr(remote, "_find_store", lambda uri: BeamFiles(fake))
    return fake


@pytest.mark.parametrize("size_bytes", [0, 10, 3 * 2**20])
def test_a_file_is_written_whole(system, size_bytes):
    files.write_file("hdfs://host/file", bytes(size_bytes))
    assert system.content == {"hdfs://host/file": bytes(size_bytes)}


def test_a_failed_write_leaves_nothing(system):
    with pytest.raises(KeyError), files.write_atomically("hdfs://host/file") as file:
        file.write(b"a part")
        raise KeyError
    assert system.content == {}


@pytest.mark.parametrize("size_bytes", [9 * 2**20, 8 * 2**20 + 1])
def test_a_full_temporary_folder_is_named(system, monkeypatch, size_bytes):
    def open_full(**_):
        return os.fdopen(os.open("/dev/full", os.O_RDWR), "w+b")

    monkeypatch.setattr(tempfile, "tempdir", "/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", open_full)
    with pytest.raises(UserError) as caught:
        files.write_file("hdfs://host/file", bytes(size_bytes))
    assert str(caught.value) == (
        "temporary folder /full: [Errno 28] No space left on device; set TMPDIR to one with room."
    )
    assert system.content == {}


def test_without_any_temporary_folder_one_is_asked_for(system, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    message = r"^temporary folder: .*No usable temporary directory.*; set TMPDIR to one with room"
    with pytest.raises(UserError, match=message):
        files.write_file("hdfs://host/file", bytes(9 * 2**20))


def test_a_store_that_takes_nothing_is_named(system):
    with pytest.raises(UserError, match=r"hdfs://no-bucket/file: its store refused.*not yours"):
        files.write_file("hdfs://no-bucket/file", b"data")


def test_files_are_read_listed_and_deleted(system):
    root = "hdfs://host/folder"
    for name in ("b/2.txt", "a/1.txt", "b/1.png"):
        files.write_file(f"{root}/{name}", name.encode())
    assert files.read_file(f"{root}/a/1.txt", 2, 5) == b"1.t"
    assert files.open_input(f"{root}/a/1.txt").read() == b"a/1.txt"
    assert list(files.list_remote_tree(root)) == [
        ("a/1.txt", 7, 0),
        ("b/1.png", 7, 0),
        ("b/2.txt", 7, 0),
    ]
    assert files.list_files(root, "*/*.txt") == [f"{root}/a/1.txt", f"{root}/b/2.txt"]
    assert files.list_files(root, "b/*") == [f"{root}/b/1.png", f"{root}/b/2.txt"]
    assert files.list_files(root, "*") == []
    files.delete(f"{root}/b/2.txt", f"{root}/not-there")
    assert sorted(system.content) == [f"{root}/a/1.txt", f"{root}/b/1.png"]
    assert files.exists(f"{root}/b") and not files.is_file(f"{root}/b")
    files.delete_tree(f"{root}/b")
    assert not files.exists(f"{root}/b")


def test_what_is_missing_is_said_alike(system):
    with pytest.raises(FileNotFoundError, match="hdfs://host/no"):
        files.read_file("hdfs://host/no")


def test_file_systems_have_options_before_there_is_a_pipeline(monkeypatch):
    from apache_beam.io.filesystems import FileSystems

    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    assert remote._beam()._pipeline_options is not None


@pytest.mark.parametrize("uri", ["s3://bucket/file", "az://account/container/file"])
def test_a_client_that_is_not_installed_is_named(uri, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    remote.forget_stores()
    with pytest.raises(UserError, match=rf"^{uri}: reading its store needs the package obstore"):
        files.read_file(uri)
    remote.forget_stores()


BY_NAME = ["s3://b/a", "s3://b/a-1", "s3://b/a.d/x", "s3://b/a/0", "s3://b/a/z", "s3://b/é"]
BY_FOLDER = ["az://c/a/0", "az://c/a/z", "az://c/a-1/x", "az://c/a.png"]


@pytest.mark.parametrize("names", [BY_NAME, BY_FOLDER, [], ["s3://b/x"]])
def test_both_orders_pass(names):
    listed = [(name, 1, 2.0) for name in names]
    assert list(check_order(iter(listed))) == listed


@pytest.mark.parametrize(
    "names",
    [
        ["s3://b/b", "s3://b/a"],
        ["s3://b/a", "s3://b/a"],  # Twice.
        ["s3://b/a-1", "s3://b/a/0", "s3://b/a-2"],  # By names first, then by folders.
        ["s3://b/a/0", "s3://b/a-1", "s3://b/a/1"],
    ],
)
def test_no_order_stops_before_a_name_is_in_the_wrong_place(names):
    passed = []
    with pytest.raises(UserError, match=f"{names[-1]} is listed behind {names[-2]}: its store"):
        for each in check_order((name, 1, 2.0) for name in names):
            passed.append(each[0])
    assert passed == names[:-1]
