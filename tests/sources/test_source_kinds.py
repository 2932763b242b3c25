"""Each kind of source: told by what is given as images, and its parts of files read."""

import io
import os
import pathlib
import tarfile

import pyarrow as pa
import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import Location
from image_pipeline.components.sources.source_kinds import (
    all_kinds,
    check_unchanged,
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
    places = [place for kind in kinds for place in kind.locations]
    assert len({*prefixes}) == len(prefixes) == 5 and len({*places}) == len(places) == 15
    # What stands before a path, or is a name, must not be taken for one.
    assert {*prefixes} == {*files._PREFIXES, *files._NAMES}


def test_the_documents_name_all_endings():
    text = "".join((DOCS / f"{page}.md").read_text() for page in PAGES)
    endings = f"{name_endings(is_table=True)}, {name_endings(is_table=False)}".split(", ")
    assert len(endings) > 20
    assert [ending for ending in endings if ending not in text] == []


def _refer(path, modified_ns, kind="bytes", within=None):
    return ImageRef("a.jpg", 1, modified_ns, location=Location(str(path), kind, 0, within=within))


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(b"x")
    before_ns = os.stat(path).st_mtime_ns
    ref = _refer(path, before_ns)
    frame = _refer("video.mp4", before_ns, "frame", within=ref.location)
    masked = ImageRef("b.jpg", 1, 7, mask=ref)
    check_unchanged([ref, frame, masked])
    os.utime(path, ns=(before_ns, before_ns + 1))
    for each in (ref, frame, masked):
        with pytest.raises(UserError, match=r"a.tar' was changed after .* run again once nothing"):
            check_unchanged([each])


def test_what_cannot_be_told_is_not_refused(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    check_unchanged([_refer(tmp_path / "a.tar", 0)])  # Its store says nothing of it.
    check_unchanged([_refer(tmp_path / "gone.tar", 7)])  # Whoever reads it says that.
    check_unchanged([_refer(tmp_path, 7, "array")])
    check_unchanged([_refer("video.mp4", 7, "frame"), ImageRef("a.jpg", 1, 7)])
