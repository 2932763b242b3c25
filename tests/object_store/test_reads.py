"""Arrays, records and Beam's own sources behind URIs: read as a local folder is."""

import dataclasses
import gzip

import apache_beam as beam
import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.tfrecord import split_records
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.open_source import open_complete
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources import frames
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.stores import remote
from image_pipeline.components.stores.beam_reads import name_for_beam
from image_pipeline.components.tables.table import Table
from image_pipeline.components.tables.table_columns import complete_options
from tests.array_files import IMAGES, NAMES, WRITERS, write_npy
from tests.data_set_files import write_tfrecord
from tests.drawings import draw, encode_png
from tests.object_store.runs import ingest, read_tree
from tests.videos import encode

pytestmark = pytest.mark.beam


def _read(path, columns=None):
    table = Table(path, complete_options(path, TableOptions(columns=columns or {})))
    refs = list(table.list())
    placed = [dataclasses.replace(ref, modified_ns=0, location=None) for ref in refs]
    return placed, [table.read(ref, 10**6) for ref in refs]


def _send(store, path):
    with files.write_atomically(f"{store.uri}/arrays/{path.name}") as file:
        file.write(path.read_bytes())
    return f"{store.uri}/arrays/{path.name}"


@pytest.mark.parametrize("name", ["contiguous.h5", "chunked.hdf5", "stored.npz", "packed.npz"])
def test_rows_are_those_of_a_local_file(store, tmp_path, name):
    path = WRITERS[name](tmp_path / name, {"X": IMAGES, "name": NAMES})
    assert _read(_send(store, path)) == _read(str(path))
    WRITERS[name](path, {"X": IMAGES[::-1][:20], "name": NAMES[:20]})
    refs, rows = _read(_send(store, path))
    assert (refs, rows) == _read(str(path))
    assert len(rows) == 20


def test_files_beside_one_another(store, tmp_path):
    path = write_npy(tmp_path / "X.npy", {"X": IMAGES, "name": NAMES})
    _send(store, tmp_path / "name.npy")
    names = {"path": "name.npy"}
    assert _read(_send(store, path), names) == _read(str(path), names)


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_labels_beside_the_images_are_found(store, tmp_path, scheme):
    labels = NAMES[::-1]
    path = write_npy(tmp_path / "X.npy", {"X": IMAGES, "y": labels, "y_test": NAMES})
    for each in tmp_path.glob("*.npy"):
        with files.write_atomically(f"{store.uri}/beside/{each.name}") as file:
            file.write(each.read_bytes())
    remote = f"{scheme}://bucket/beside/X.npy"
    assert complete_options(remote, TableOptions()).columns["label"] == "y.npy"
    refs, rows = _read(remote)
    assert [ref.annotations.label for ref in refs] == [str(label) for label in labels]
    assert (refs, rows) == _read(str(path))


def test_zarr_is_refused(store, tmp_path):
    path = WRITERS["file.zarr.zip"](tmp_path / "a.zarr.zip", {"X": IMAGES})
    with pytest.raises(UserError, match="Zarr is read from a local disk only, got 'gs://"):
        _read(_send(store, path))
    with pytest.raises(UserError, match="does not exist"):
        _read(f"{store.uri}/arrays/none.h5")


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


PNGS = [encode_png(draw(number)) for number in range(5)]


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_a_folder_of_splits_is_as_a_local_one(store, tmp_path, scheme):
    for split, numbers in (("train", range(3)), ("eval", range(3, 5))):
        path = tmp_path / "data_tfrecord-00000-of-00001.gz"
        write_tfrecord(path, [{"image": PNGS[n], "label": n} for n in numbers])
        with files.write_atomically(f"{store.uri}/examples/Split-{split}/{path.name}") as file:
            file.write(path.read_bytes())
    folder = f"{scheme}://bucket/examples"
    with pytest.raises(UserError, match=f"in Split-eval, Split-train, .* tfrecord:{folder} --out"):
        read_whole_manifest(folder)
    source, _ = open_complete(f"tfrecord:{folder}", IngestOptions())
    refs = list(source.list())
    assert [ref.annotations.split for ref in refs] == ["eval"] * 2 + ["train"] * 3
    assert [source.read(ref, 10**6) for ref in refs] == [*PNGS[3:], *PNGS[:3]]


# Videos are read where they are: their frames are those of the local files.
OPTIONS = {"video": {"frames_per_second": 2.0}, "duplicates": "keep_all"}


@pytest.fixture
def videos(store, tmp_path):
    """The same videos in a local folder and in the store; the index of some is at their end."""
    for number in range(8):
        size, kind = (16 + 2 * number, 32), ("matroska", "mov")[number // 2 % 2]
        codec = "ffv1" if kind == "matroska" else "mpeg4"
        name = f"{number}.mkv" if kind == "matroska" else f"{number}.mov"
        path = tmp_path / "videos" / ("cat", "dog")[number % 2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(40, 10, kind, codec, size=size))
        with files.write_atomically(f"{store.uri}/videos/{path.parent.name}/{path.name}") as file:
            file.write(path.read_bytes())
    frames._open.clear()
    return tmp_path / "videos"


@pytest.mark.parametrize("held_bytes", [2**23, 1000])
@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_frames_are_those_of_local_files(videos, tmp_path, monkeypatch, scheme, held_bytes):
    ingest(str(videos), str(tmp_path / "local"), **OPTIONS)
    monkeypatch.setattr(remote, "_HELD_BYTES", held_bytes)  # Larger ones are read in such parts.
    manifest = ingest(f"{scheme}://bucket/videos", str(tmp_path / "data"), **OPTIONS)
    assert manifest.books.written == 8 * 8
    assert read_tree(str(tmp_path / "data")) == read_tree(str(tmp_path / "local"))
