"""Which files are read, and what labels they have."""

import gzip
import io
import pathlib

import obstore
import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.records import find_label_kind, match_files, read_manifests
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS
from image_pipeline.components.stores import remote
from image_pipeline.components.stores.objects import Address, ObjectStore
from tests import shards
from tests.feeding.foreign import describe, write_foreign

pytestmark = pytest.mark.unit

RECORDS = 20


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twenty records in four shards."""
    folder = tmp_path_factory.mktemp("data") / "Split-train"
    return shards.write_shards(folder, shards.make_examples(RECORDS), 4)


def test_files_are_sorted_and_listed_once(pattern):
    paths = match_files([pattern, pattern.replace("*", "00003*")])
    assert [path[-14:-9] for path in paths] == ["00000", "00001", "00002", "00003"]


def test_a_pattern_without_files_is_an_error(pattern):
    with pytest.raises(UserError, match=r"no file matches \['/nowhere/\*'\]; check the path"):
        match_files([pattern, "/nowhere/*"])
    with pytest.raises(UserError, match="no file matches none"):
        match_files([])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("s3://bkt/data/Split-*/*", ["data/Split-eval/0", "data/Split-train/0"]),
        ("s3://bkt/*/Split-eval/?", ["data/Split-eval/0"]),
        ("s3://bkt/data/Split-[et]*/0", ["data/Split-eval/0", "data/Split-train/0"]),
        ("s3://bkt/data/Split-train/0", ["data/Split-train/0"]),
        ("s3://bkt/to*", ["top"]),
    ],
)
def test_any_part_of_a_pattern_may_have_wildcards(monkeypatch, pattern, found):
    store = ObjectStore(Address("s3", "s3://bkt/", "bkt"), obstore.store.MemoryStore())
    monkeypatch.setattr(remote, "_find_store", lambda uri: store)
    for name in ("data/Split-eval/0", "data/Split-train/0", "data/other/0", "top"):
        store.put(f"s3://bkt/{name}", io.BytesIO(b"data"))
    assert match_files([pattern]) == [f"s3://bkt/{name}" for name in found]


def test_what_is_hidden_matches_no_pattern(pattern, tmp_path):
    for name in (".hidden", "a"):
        (tmp_path / name).write_bytes(b"")
    assert match_files([f"{tmp_path}/*"]) == [str(tmp_path / "a")]


def test_what_only_tensorflow_reads_is_where_it_can():
    for path in ("/data/file", "gs://bucket/file"):
        files.check_known_to_tensorflow(path, "the graph")
    with pytest.raises(UserError, match=r"^the graph must be .* TensorFlow .* az://box/file; use"):
        files.check_known_to_tensorflow("az://box/file", "the graph")


@pytest.mark.parametrize(
    ("further", "kind"),
    [
        ({}, CLASSES),
        ({record.MASK: [b"png"]}, MASKS),
        ({record.BOX_LABEL.key: [1, 2]}, BOXES),
        ({record.BOX_LABEL.key: []}, BOXES),
    ],
    ids=["classes", "masks", "boxes", "no boxes"],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_first_record_tells_the_labels(tmp_path, further, kind, ending):
    path = pathlib.Path(write_foreign(tmp_path / f"b{ending}", [describe(0, "cat", **further)]))
    if ending:
        path.write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "a").write_bytes(b"")  # Has no record, and tells nothing.
    assert find_label_kind([f"{tmp_path}/*"]) is kind


@pytest.mark.parametrize("content", [b"", b"no record", frame(b"no example")])
def test_what_is_no_record_has_no_labels(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert find_label_kind([str(tmp_path / "a")]) is CLASSES


def test_shards_without_a_manifest_have_none_and_nobody_asks_twice(tmp_path, monkeypatch):
    pattern = shards.write_shards(tmp_path / "Split-train", shards.make_examples(2), 1)
    asked = []
    read = files.read_file
    monkeypatch.setattr(files, "exists", lambda path: asked.append(f"exists {path}"))
    monkeypatch.setattr(files, "read_file", lambda path: asked.append(path) or read(path))
    assert read_manifests([pattern]) == {}
    assert asked == [f"{tmp_path}/manifest.json"]
