"""Each kind of source, told by what is given as images."""

import io
import pathlib
import tarfile

import pyarrow as pa
import pytest

from image_pipeline.components.ingest.open_source import open_source
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.sources.source_kinds import (
    all_kinds,
    kind_of,
    list_tables,
    name_endings,
    read_rows,
)
from tests.data_set_files import write_parquet, write_tfrecord

pytestmark = pytest.mark.unit

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGES = ("tables", "sources", "data-sets", "arrays", "install")


@pytest.mark.parametrize(
    ("images", "kind", "source"),
    [
        ("photos", "a folder", "Folder"),
        ("gs://bucket/photos", "a folder", "Folder"),
        ("photos.zip", "an archive", "Archive"),
        ("gs://bucket/photos-*.tar", "an archive", "Archive"),
        ("photos.csv", "a table", "Table"),
        ("photos.npz", "a table", "Table"),
        ("photos.arrow", "a table of Arrow files", "Table"),
        ("tfrecord:shards/train-*", "TFRecords", "Table"),
        ("tfds:mnist", "a TFDS data set", "Table"),
        ("generator:my_data:records", "a generator", "Generator"),
        ("source:my_data:open_photos", "a source of your own", "OwnSource"),
    ],
)
def test_a_name_tells_the_kind_which_opens_its_source(monkeypatch, images, kind, source):
    monkeypatch.setattr("image_pipeline.components.files.list_files", lambda *_: [])
    found = kind_of(images)
    assert found.name == kind and found.is_table == (source == "Table")
    assert type(open_source(images, IngestOptions())).__name__ == source


def test_an_archive_is_a_table_if_its_members_are_named_as_a_web_data_sets(tmp_path):
    for name, members in (("class", ["a/0.jpg", "b/1.jpg"]), ("web", ["0.jpg", "0.cls"])):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            for member in members:
                tar.addfile(tarfile.TarInfo(member), io.BytesIO())
    assert kind_of(f"{tmp_path}/class.tar").name == "an archive"
    assert kind_of(f"{tmp_path}/web.tar").name == "a WebDataset"
    (tmp_path / "folder.zip").mkdir()
    assert kind_of(f"{tmp_path}/folder.zip").name == "a folder"


def test_a_folder_of_several_kinds_of_tables_is_read_by_each_ones_own(tmp_path):
    write_tfrecord(tmp_path / "a.tfrecord", [{"label": [b"x"]}])
    write_parquet(tmp_path / "b.parquet", pa.table({"label": ["y"]}))
    assert kind_of(str(tmp_path)).is_table
    rows = [row.cells for path, _ in list_tables(str(tmp_path)) for row in read_rows(path)]
    assert rows == [{"label": ["x"]}, {"label": "y"}]
    tables = [(f"tfrecord:{tmp_path}/{name}", None) for name in ("a.tfrecord", "b.parquet")]
    assert list_tables(f"tfrecord:{tmp_path}") == tables


def test_no_two_kinds_have_one_prefix_or_read_one_place():
    kinds = all_kinds()
    prefixes = [kind.prefix for kind in kinds if kind.prefix]
    places = [place for kind in kinds for place in kind.places]
    assert len({*prefixes}) == len(prefixes) == 4 and len({*places}) == len(places) == 10


def test_the_documents_name_all_endings():
    text = "".join((DOCS / f"{page}.md").read_text() for page in PAGES)
    endings = f"{name_endings(is_table=True)}, {name_endings(is_table=False)}".split(", ")
    assert len(endings) > 20
    assert [ending for ending in endings if ending not in text] == []
