import io
import json
import pickle

import pytest

from image_pipeline.components.dataset.checksums import (
    HashedWriter,
    ListedFile,
    copy_file,
    describe_file,
)
from image_pipeline.components.dataset.manifest import (
    Books,
    ListedShard,
    ListedSplit,
    Manifest,
    hash_manifest,
    parse_manifest,
    read_manifest,
    read_whole_manifest,
    seal,
)
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit

SHARD = ListedShard(file="Split-all/data_tfrecord-00000-of-00001", records=1, bytes=9, sha256="ab")
BOOKS = Books(
    found=3,
    written=1,
    duplicates=0,
    quarantined=1,
    quarantine_reasons={"empty": 1},
    skipped=1,
    skipped_kinds={"text": 1},
    skipped_examples={"text": "a\udcff.txt"},
    conflicting_labels=0,
    straddling=0,
    classes={"all": {"cat": 1}},
)
MANIFEST = Manifest(
    format_version=1,
    books=BOOKS,
    splits={"all": ListedSplit(records=1, bytes=9, shards=[SHARD])},
    files={"index.parquet": ListedFile(bytes=5, sha256="cd")},
    options={"stratify": False, "shards": None, "label_pattern": "(?P<label>.+)"},
)
CONTENT = rb"""{
 "format_version": 1,
 "found": 3,
 "written": 1,
 "duplicates": 0,
 "quarantined": 1,
 "quarantine_reasons": {
  "empty": 1
 },
 "skipped": 1,
 "skipped_kinds": {
  "text": 1
 },
 "skipped_examples": {
  "text": "a\udcff.txt"
 },
 "conflicting_labels": 0,
 "straddling": 0,
 "classes": {
  "all": {
   "cat": 1
  }
 },
 "splits": {
  "all": {
   "records": 1,
   "bytes": 9,
   "shards": [
    {
     "file": "Split-all/data_tfrecord-00000-of-00001",
     "records": 1,
     "bytes": 9,
     "sha256": "ab"
    }
   ]
  }
 },
 "files": {
  "index.parquet": {
   "bytes": 5,
   "sha256": "cd"
  }
 },
 "options": {
  "stratify": false,
  "shards": null,
  "label_pattern": "(?P<label>.+)"
 },
 "manifest_sha256": "CHECKSUM"
}
"""


def _change(**changes):
    """The manifest's JSON with a checksum that fits, and with other values; None deletes."""
    values = json.loads(MANIFEST.to_bytes()) | changes
    kept = {name: value for name, value in values.items() if value is not None}
    return json.dumps(seal(kept)).encode()


def _unseal(*missing):
    """The manifest's JSON as of a version that had neither checksums nor these keys."""
    values = json.loads(MANIFEST.to_bytes())
    dropped = {"manifest_sha256", "skipped", "skipped_kinds", "skipped_examples", *missing}
    return json.dumps({k: v for k, v in values.items() if k not in dropped}).encode()


def test_the_bytes_are_these_and_are_read_again():
    content = MANIFEST.to_bytes()
    checksum = json.loads(content)["manifest_sha256"]
    assert content == CONTENT.replace(b"CHECKSUM", checksum.encode())
    assert parse_manifest(content) == MANIFEST.model_copy(update={"checksum": checksum})
    assert parse_manifest(content).to_bytes() == content


def test_look_alikes_are_counted_where_they_were_looked_for():
    assert parse_manifest(MANIFEST.to_bytes()).books.near_duplicates is None
    looked = MANIFEST.model_copy(update={"books": BOOKS.model_copy(update={"near_duplicates": 0})})
    assert list(json.loads(looked.to_bytes()))[11:13] == ["classes", "near_duplicates"]
    assert parse_manifest(looked.to_bytes()).books.near_duplicates == 0


def test_it_travels_through_beam():
    assert pickle.loads(pickle.dumps(MANIFEST)) == MANIFEST


def test_what_became_of_files_adds_up():
    assert BOOKS.accounted == 3
    assert BOOKS.model_copy(update={"duplicates": 4}).accounted == 7


def test_shards_are_numbered_in_their_split():
    second = SHARD.model_copy(update={"file": "second"})
    split = ListedSplit(records=2, bytes=18, shards=[SHARD, second])
    both = MANIFEST.model_copy(update={"splits": {"train": split, "eval": split}})
    assert [(name, number) for name, number, _ in both.list_shards()] == [
        *(("train", 0), ("train", 1), ("eval", 0), ("eval", 1))
    ]
    assert [shard for *_, shard in both.list_shards()] == [SHARD, second] * 2


def test_an_older_manifest_skipped_nothing_and_has_no_checksum():
    found = parse_manifest(_unseal("straddling"))
    assert found.checksum is None
    assert (found.books.skipped, found.books.skipped_kinds, found.books.straddling) == (0, {}, 0)
    assert found.splits == MANIFEST.splits


def test_a_key_of_a_newer_version_is_passed_over():
    assert parse_manifest(_change(weather="fine")).books == BOOKS


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[]", "it holds no names and values"),
        (b'{"name": "a web app"}', "it has name, but no manifest_sha256"),
        (CONTENT, "its manifest_sha256 is not that of its content"),
        (b"{}", "its found: Field required"),
        (_change(format_version=2, splits=None), "its format_version is 2"),
        (_unseal("found"), "its found: Field required"),
        (_unseal("splits"), "its splits: Field required"),
        (_change(written="1"), "its written: Input should be a valid integer"),
        (
            _change(splits={"all": {"records": 1, "bytes": 9}}),
            "its splits.all.shards: Field required",
        ),
    ],
)
def test_what_is_damaged_or_none_is_said_in_one_line(content, problem, tmp_path):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(UserError) as error:
        read_manifest(str(tmp_path))
    assert str(error.value) == (
        f"'{tmp_path}/manifest.json' was changed since ingest wrote it ({problem}); "
        "restore it from a copy, or run ingest again."
    )


def test_a_folder_without_one_is_no_whole_data_set(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_manifest(str(tmp_path))
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "a.jpg").touch()
    photos = str(tmp_path / "photos")
    with pytest.raises(UserError) as error:
        read_whole_manifest(photos)
    assert str(error.value) == (
        f"'{photos}' is not a data set: it has neither manifest.json nor shards; give the folder "
        "that ingest wrote. If it holds images, ingest them first: image-pipeline ingest --images "
        f"{photos} --output data; in Python, ingest('{photos}', \"data\")."
    )
    (tmp_path / ".work").mkdir()
    with pytest.raises(UserError, match=r"is incomplete: it has no manifest\.json; check the path"):
        read_whole_manifest(str(tmp_path))
    with pytest.raises(UserError, match="none' does not exist: it has no"):
        read_whole_manifest(str(tmp_path / "none"))


def test_a_data_set_is_known_by_its_manifests_bytes(tmp_path):
    (tmp_path / "manifest.json").write_bytes(b"abc")
    assert hash_manifest(str(tmp_path)) == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


ABC = ListedFile(bytes=3, sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")


def test_a_file_is_described(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert describe_file(str(tmp_path / "file")) == ABC


def test_a_copy_is_described_and_appears_whole(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert copy_file(str(tmp_path / "file"), str(tmp_path / "new" / "copy")) == ABC
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["copy"]
    assert (tmp_path / "new" / "copy").read_bytes() == b"abc"


def test_what_is_written_is_passed_on():
    file = io.BytesIO()
    written = HashedWriter(file)
    assert (written.write(b"a"), written.write(memoryview(b"bc"))) == (1, 2)
    assert (written.describe(), file.getvalue()) == (ABC, b"abc")
