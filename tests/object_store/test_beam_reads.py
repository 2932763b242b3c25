"""Beam's own sources read what is in a store, as they read a local folder."""

import gzip

import apache_beam as beam
import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.tfrecord import split_records
from image_pipeline.components.stores.beam_reads import name_for_beam
from tests.object_store.runs import read_tree

pytestmark = pytest.mark.beam


def test_only_stores_that_beam_does_not_open_have_other_names():
    assert name_for_beam("s3://bucket/a") == "stored+s3://bucket/a"
    assert name_for_beam("az://box/a") == "stored+az://box/a"
    for path in ("gs://bucket/a", "/folder/s3://", "hdfs://a"):
        assert name_for_beam(path) == path


@pytest.mark.parametrize("split", ["train", "eval"])
def test_a_source_of_records_gives_those_of_the_local_folder(places, split):
    paths = files.list_files(f"{places['local']}/data", f"Split-{split}/*")
    records = [record for path in paths for record in split_records(files.read_file(path))[0]]
    pattern = f"{name_for_beam('s3://bucket')}/data/Split-{split}/*"
    with beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))) as root:
        assert_that(root | beam.io.ReadFromTFRecord(pattern), equal_to(list(map(bytes, records))))


def test_a_large_file_is_read_in_parts(store):
    content = bytes(range(256)) * 2**16  # 16 MiB.
    files.write_file("s3://bucket/reads/large", content)
    store.control()
    with FileSystems.open("stored+s3://bucket/reads/large") as file:
        assert file.read(3) == content[:3]
        file.seek(2**23 - 1)
        assert file.read(2) == content[2**23 - 1 :][:2]
    assert store.control()["requests"]["read"] == 3


def test_a_packed_file_is_refused(store):
    files.write_file("s3://bucket/reads/small.gz", gzip.compress(b"one"))
    with pytest.raises(BeamIOError, match=r"stored\+s3://bucket/reads/small.gz is compressed"):
        FileSystems.open("stored+s3://bucket/reads/small.gz")


def test_files_are_listed_with_their_sizes(store):
    for name in ("a-1", "a-2", "b", "a-3/c"):
        files.write_file(f"s3://bucket/for-beam/{name}", name.encode())
    (match,) = FileSystems.match(["stored+s3://bucket/for-beam/a-*"])
    found = [(each.path, each.size_in_bytes) for each in match.metadata_list]
    assert found == [("stored+s3://bucket/for-beam/a-1", 3), ("stored+s3://bucket/for-beam/a-2", 3)]
    (match,) = FileSystems.match(["stored+s3://bucket/for-beam/b"])
    assert [each.size_in_bytes for each in match.metadata_list] == [1]
    (match,) = FileSystems.match(["stored+s3://bucket/for-beam/none"])
    assert match.metadata_list == []
    assert read_tree("s3://bucket/for-beam").keys() == {"a-1", "a-2", "a-3/c", "b"}


def test_nothing_is_written_there(store):
    with pytest.raises(BeamIOError, match=r"stored\+ URIs are for reading only"):
        FileSystems.create("stored+s3://bucket/new")
    with pytest.raises(BeamIOError, match="for reading only"):
        FileSystems.delete(["stored+s3://bucket/for-beam/b"])
