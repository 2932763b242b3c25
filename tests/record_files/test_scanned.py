"""TFRecords that others wrote: one scan, kept beside them, and what makes it again."""

import concurrent.futures
import gzip
import hashlib
import json
import os
import pathlib
import zlib

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.record_files import scanned
from image_pipeline.components.record_files.scanned import scan_files
from tests import shards
from tests.feeding.foreign import describe, write_foreign

pytestmark = pytest.mark.unit

NAMES = ["cat", "dog", "cat", "dog", "dog", "cat"]
CAT, DOG = describe(0, "cat"), describe(1, "dog")


@pytest.fixture
def folder(tmp_path):
    """Two files of three records each, of which the image is not the last feature."""
    write_foreign(tmp_path / "in" / "a.tfrecord", [CAT, DOG, CAT])
    write_foreign(tmp_path / "in" / "b.tfrecord", [DOG, DOG, CAT])
    return tmp_path / "in"


def scan(folder, pattern="*.tfrecord"):
    return scan_files(sorted(map(str, folder.glob(pattern))), str(folder.parent / "cache"))


@pytest.fixture
def scans(monkeypatch):
    """The names of the files that are scanned."""
    names, before = [], scanned._scan

    def note(path, *more):
        names.append(os.path.basename(path))
        return before(path, *more)

    monkeypatch.setattr(scanned, "_scan", note)
    return names


def test_records_are_found_in_the_order_of_files(folder):
    index = scan(folder)
    assert [index.classes[code] for code in index.label] == NAMES
    assert index.shard.tolist() == [0, 0, 0, 1, 1, 1]
    assert (index.height[0], index.width[0], index.channels[0], index.dtype) == (12, 16, 3, "uint8")
    assert index.image_length.tolist() == [0] * 6 and not index.is_raw.any()
    records = StoredRecords(index)
    for row, number in enumerate((0, 1, 0, 1, 1, 0)):
        stored = records.read_image(row, verify=True)
        assert bytes(stored.encoded) == shards.encode_image(shards.draw_image(number), "png")


def test_records_of_ours_have_the_rows_that_ingest_wrote(train_shards, tmp_path):
    files = [tmp_path / os.path.basename(path) for path in train_shards]
    for path, file in zip(train_shards, files, strict=True):
        file.write_bytes(pathlib.Path(path).read_bytes())
    index, expected = scan_files(sorted(map(str, files)), str(tmp_path)), read_index(train_shards)
    assert index.classes == expected.classes and index.sizes.tolist() == expected.sizes.tolist()
    for found, own in zip(
        index.take(np.arange(len(index))), expected.scan().__next__(), strict=True
    ):
        np.testing.assert_array_equal(found, own)


def test_ids_are_those_of_ingest_or_hashes_of_any_text(tmp_path):
    texts = [b"0" * 31 + b"f", b"0" * 31 + b"F", b"17", b""]
    records = [CAT | {"image/source_id": [text]} for text in texts]
    write_foreign(tmp_path / "a.tfrecord", records)
    found = [bytes(each) for each in scan(tmp_path).record_id]
    hashes = [hashlib.sha256(text).digest()[:16] for text in texts]
    assert found == [bytes(15) + b"\x0f", *hashes[1:]]


def test_a_file_is_scanned_once_and_again_once_it_was_changed(folder, scans):
    first, again = scan(folder), scan(folder)
    assert sorted(scans) == ["a.tfrecord", "b.tfrecord"]
    assert again.identity == first.identity
    assert sorted(os.listdir(folder.parent / ".image-pipeline-index" / "in")) == [
        *("a.tfrecord.rows", "b.tfrecord.rows")
    ]
    write_foreign(folder / "b.tfrecord", [DOG, DOG, CAT, CAT])
    grown = scan(folder)
    assert scans[2:] == ["b.tfrecord"]
    assert len(grown) == 7 and grown.identity != first.identity
    later = os.stat(folder / "a.tfrecord").st_mtime_ns + 10**9
    os.utime(folder / "a.tfrecord", ns=(later, later))
    assert len(scan(folder)) == 7 and scans[3:] == ["a.tfrecord"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:-1] + b"x",
        lambda content: b"",
        lambda content: b"{}\n",
        lambda content: b"[]\n" + content,
        lambda content: content.replace(b'"names"', b'"mames"'),
        lambda content: bytes(40),
    ],
)
def test_a_damaged_index_is_made_anew(folder, scans, damage):
    labels = scan(folder).label.tolist()
    kept = folder.parent / ".image-pipeline-index" / "in" / "a.tfrecord.rows"
    kept.write_bytes(damage(kept.read_bytes()))
    assert scan(folder).label.tolist() == labels
    assert sorted(scans) == ["a.tfrecord", "a.tfrecord", "b.tfrecord"]


def test_where_nothing_can_be_written_the_index_is_in_the_cache(folder, scans):
    (folder.parent / ".image-pipeline-index").write_text("a file, where the folder would be")
    labels = scan(folder).label.tolist()
    assert scan(folder).label.tolist() == labels and len(scans) == 2
    assert len(os.listdir(folder.parent / "cache" / "scanned")) == 2


def test_where_nothing_can_be_kept_it_says_so(folder, scans, caplog):
    (folder.parent / ".image-pipeline-index").write_text("a file")
    (folder.parent / "cache").write_text("a file")
    assert len(scan(folder)) == len(scan(folder)) == 6 and len(scans) == 4
    assert "a.tfrecord is not kept but made each time: " in caplog.text


@pytest.mark.parametrize("name", ["Split-train", "mine"])
def test_the_index_is_not_where_others_read_all_files(tmp_path, name):
    path = write_foreign(tmp_path / name / "a.tfrecord", [CAT])
    scan_files([path], str(tmp_path / "cache"))
    assert sorted(os.listdir(tmp_path)) == [".image-pipeline-index", name]
    assert tf.io.gfile.glob(f"{tmp_path / name}/*") == [path]


@pytest.mark.parametrize("path", ["/a.tfrecord", "/top/a.tfrecord", "gs://bucket/a.tfrecord"])
def test_beside_the_folders_of_the_top_nothing_is_kept(path):
    (place,) = scanned._list_places(path, "cache")
    assert place.startswith("cache/scanned/")


def compress_in_members(content):
    return gzip.compress(content[:100]) + gzip.compress(content[100:])


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), ("", gzip.compress), ("", compress_in_members), ("", zlib.compress)],
)
def test_packed_files_are_unpacked_once(folder, scans, ending, pack):
    plain = scan(folder)
    for path in sorted(folder.glob("*.tfrecord")):
        (folder / f"{path.name}.packed{ending}").write_bytes(pack(path.read_bytes()))
    index = scan(folder, "*.packed*")
    assert index.label.tolist() == plain.label.tolist()
    assert StoredRecords(index).read(4, True) == StoredRecords(plain).read(4, True)
    copies = folder.parent / "cache" / "unpacked"
    assert len(os.listdir(copies)) == 2 and len(scans) == 4
    scan(folder, "*.packed*")
    assert len(scans) == 4
    os.remove(copies / sorted(os.listdir(copies))[0])
    assert len(scan(folder, "*.packed*")) == 6 and len(scans) == 5


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"\xff"])
def test_a_packed_file_that_is_damaged_is_named(folder, pack, damage):
    (folder / "c.gz").write_bytes(damage(pack((folder / "a.tfrecord").read_bytes())))
    with pytest.raises(UserError, match=r"c\.gz is damaged: .*; write it again, or leave it out"):
        scan(folder, "*.gz")
    assert not os.path.exists(folder.parent / ".image-pipeline-index" / "in" / "c.gz.rows")
    assert os.listdir(folder.parent / "cache" / "unpacked") == []


def test_where_nothing_can_be_unpacked_the_option_is_named(folder):
    (folder / "c.gz").write_bytes(gzip.compress((folder / "a.tfrecord").read_bytes()))
    (folder.parent / "cache").write_text("a file, where the folder would be")
    told = r"c\.gz must be unpacked .* cannot be written \(.+\); set feeding\.cache_dir to a folder"
    with pytest.raises(UserError, match=told):
        scan(folder, "*.gz")


def test_files_without_records_are_left_out(folder):
    (folder / "0.tfrecord").write_bytes(b"")
    (folder / "z.tfrecord").write_bytes(b"")
    index = scan(folder)
    assert [os.path.basename(path) for path in index.shard_paths] == ["a.tfrecord", "b.tfrecord"]
    assert len(index) == 6
    with pytest.raises(UserError, match=r"0\.tfrecord and 1 more files hold none; add images"):
        scan(folder, "[0z].tfrecord")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda content: content[:-3], "record 2: the file ends within it"),
        (lambda content: content + b"12345", "record 3: the file ends within it"),
        (lambda content: content.replace(b"image/width", b"image/widtj"), "record 0: its data or"),
        (lambda content: content[:12] + b"\xff" + content[13:], "record 0: its data or"),
        (lambda content: bytes([content[0] ^ 1]) + content[1:], "record 0: .*length field"),
    ],
)
def test_a_damaged_file_is_named_before_anything_is_read(folder, damage, told):
    path = folder / "a.tfrecord"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=rf"a\.tfrecord is damaged: {told}.*; write it again, or"):
        scan(folder)


def test_a_flipped_bit_of_an_image_is_found_when_it_is_read(folder):
    size = os.path.getsize(folder / "a.tfrecord")
    content = (folder / "a.tfrecord").read_bytes()
    place = content.index(b"IDAT") + 8
    shards.flip_bit(str(folder / "a.tfrecord"), place)
    records = StoredRecords(scan(folder))
    assert os.path.getsize(folder / "a.tfrecord") == size and records.read(1, verify=True)
    told = r"record 0 of \S+a\.tfrecord is damaged: .*checksum.*; write its file again, or set"
    with pytest.raises(UserError, match=told):
        records.read(0, verify=True)


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"image/source_id": None}, "image/source_id"),
        ({"image/height": [b"12"]}, "image/height"),
        ({"image/class/text": [b"cat", b"dog"]}, "image/class/text"),
        ({"image/class/text": [3]}, "image/class/text"),
        ({"image/format": [], "image/width": None}, "image/format, image/width"),
    ],
)
def test_a_record_without_what_is_read_of_each_is_named(tmp_path, changes, lacks):
    changed = {key: value for key, value in (CAT | changes).items() if value is not None}
    write_foreign(tmp_path / "a.tfrecord", [CAT, changed])
    told = rf"a.tfrecord must have the features {lacks}, one value each, which record 1 has not"
    with pytest.raises(UserError, match=told + "; docs/migrating.md"):
        scan(tmp_path)


@pytest.mark.parametrize("sides", [(0, 16, 3), (12, -1, 3), (2**31, 16, 3), (12, 16, 256)])
def test_an_image_of_no_size_is_refused(tmp_path, sides):
    height, width, channels = ([side] for side in sides)
    sized = {"image/height": height, "image/width": width, "image/channels": channels}
    write_foreign(tmp_path / "a.tfrecord", [CAT | sized])
    named = "{} x {} pixels of {} channels".format(*sides)
    with pytest.raises(UserError, match=f"record 0 has an image of {named}; write"):
        scan(tmp_path)


def test_what_is_no_example_is_named(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(b"a line of text")
    with pytest.raises(UserError, match=r"tf\.train\.Example, but record 0 of \S+a\.tfrecord"):
        scan(tmp_path)


def test_types_of_pixels_are_not_mixed(tmp_path):
    deep = CAT | {"image/format": [b"raw_uint16"]}
    write_foreign(tmp_path / "a.tfrecord", [CAT, deep])
    with pytest.raises(UserError, match="values of one type, got uint16 and uint8"):
        scan(tmp_path)


def test_names_that_are_not_utf_8_stay_apart(tmp_path):
    named = [CAT | {"image/class/text": [name]} for name in (b"\xff", b"\xfe", b"\xff")]
    write_foreign(tmp_path / "a.tfrecord", named)
    for _ in range(2):  # Scanned, and as it was kept.
        index = scan(tmp_path)
        assert [os.fsencode(index.classes[code]) for code in index.label] == [
            *(b"\xff", b"\xfe", b"\xff")
        ]


def test_scans_at_once_find_the_same(folder):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert [*map(len, pool.map(lambda _: scan(folder), range(16)))] == [6] * 16
    assert sorted(os.listdir(folder.parent / ".image-pipeline-index" / "in")) == [
        *("a.tfrecord.rows", "b.tfrecord.rows")
    ]


def test_what_is_written_behind_a_file_meanwhile_is_not_read(folder, monkeypatch):
    path, more = folder / "a.tfrecord", (folder / "b.tfrecord").read_bytes()
    listed = scanned.list_frames

    def grow(name):
        with open(name, "ab") as file:
            file.write(more[: len(more) // 2])
        return listed(name)

    monkeypatch.setattr(scanned, "list_frames", grow)
    assert len(scan(folder, "a.tfrecord")) == 3
    monkeypatch.setattr(scanned, "list_frames", listed)
    path.write_bytes(path.read_bytes() + more[len(more) // 2 :])
    assert len(scan(folder, "a.tfrecord")) == 6


def test_an_index_says_which_file_it_is_of(folder):
    scan(folder)
    kept = (folder.parent / ".image-pipeline-index" / "in" / "a.tfrecord.rows").read_bytes()
    head = json.loads(kept.partition(b"\n")[0])
    status = os.stat(folder / "a.tfrecord")
    assert head["state"][:3] == [1, status.st_size, status.st_mtime_ns]
    assert (head["names"], head["records"]) == (["cat", "dog"], 3)
