"""Each kind of source, told by what is given as images."""

import io
import tarfile

import pytest

from image_pipeline.components.ingest.open_source import open_source
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.source_kind import (
    ARCHIVE,
    FOLDER,
    GENERATOR,
    OWN_SOURCE,
    TABLE,
    kind_of,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("images", "kind", "source"),
    [
        ("photos", FOLDER, "Folder"),
        ("gs://bucket/photos", FOLDER, "Folder"),
        ("photos.zip", ARCHIVE, "Archive"),
        ("gs://bucket/photos-*.tar", ARCHIVE, "Archive"),
        ("photos.csv", TABLE, "Table"),
        ("photos.npz", TABLE, "Table"),
        ("tfrecord:shards/train-*", TABLE, "Table"),
        ("generator:my_data:records", GENERATOR, "Generator"),
        ("source:my_data:open_photos", OWN_SOURCE, "OwnSource"),
    ],
)
def test_a_name_tells_the_kind_which_opens_its_source(monkeypatch, images, kind, source):
    monkeypatch.setattr("image_pipeline.components.files.list_files", lambda *_: [])
    assert kind_of(images) is kind
    assert type(open_source(images, IngestOptions())).__name__ == source


def test_an_archive_is_a_table_if_its_members_are_named_as_a_web_data_sets(tmp_path):
    for name, members in (("class", ["a/0.jpg", "b/1.jpg"]), ("web", ["0.jpg", "0.cls"])):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            for member in members:
                tar.addfile(tarfile.TarInfo(member), io.BytesIO())
    assert kind_of(f"{tmp_path}/class.tar") is ARCHIVE
    assert kind_of(f"{tmp_path}/web.tar") is TABLE
    (tmp_path / "folder.zip").mkdir()
    assert kind_of(f"{tmp_path}/folder.zip") is FOLDER
