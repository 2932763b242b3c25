"""Stores that are not Google's, by a file system that keeps what is closed, as Beam's do."""

import io

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import remote

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


@pytest.fixture
def system(monkeypatch):
    fake = FakeSystem()
    monkeypatch.setattr(remote, "_file_system", lambda uri: fake)
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


def test_a_store_that_takes_nothing_is_named(system):
    with pytest.raises(UserError, match=r"s3://no-bucket/file: its store refused.*not yours"):
        files.write_file("s3://no-bucket/file", b"data")


def test_an_empty_file_has_a_way_of_its_own_to_s3(system, monkeypatch):
    put = []
    monkeypatch.setattr(remote, "_put_empty", lambda system, uri: put.append(uri))
    files.write_file("s3://bucket/empty", b"")
    files.write_file("s3://bucket/full", b"data")
    assert put == ["s3://bucket/empty"]
    assert system.content == {"s3://bucket/full": b"data"}


def test_file_systems_have_options_before_there_is_a_pipeline(monkeypatch):
    from apache_beam.io.filesystems import FileSystems

    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    assert remote._beam()._pipeline_options is not None
