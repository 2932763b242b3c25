"""Records and archives that are nothing but fields, numbers, zeros, length, or lies about it."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.archives.archive_members import list_members
from image_pipeline.components.dataset.examples import Parts, parse_example
from image_pipeline.components.dataset.tfrecord import frame, masked_crc
from image_pipeline.components.errors import UserError
from image_pipeline.components.record_files import tfrecord_frames, tfrecord_rows
from image_pipeline.components.record_files.columnar_rows import read_arrow, read_parquet
from image_pipeline.components.record_files.tfrecord_images import find_tensor
from image_pipeline.components.record_files.tfrecord_rows import read_examples
from image_pipeline.components.sources import rows
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Unusable
from image_pipeline.components.sources.source_kinds import read_location
from tests.images import zoo

pytestmark = pytest.mark.unit

MIB = 2**20
JPEG = zoo.ZOO["jpeg_gray"].data


def field(number, data):
    size, out = len(data), bytearray([number << 3 | 2])
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size]) + data


def feature(name, kind, body):
    return field(1, field(1, name) + field(2, field(kind, body)))


IMAGE = feature(b"image", 1, field(1, JPEG))
INTS, FLOATS, TEXTS = 3, 2, 1
MANY = "too many fields or numbers"


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (field(1, feature(b"n", INTS, field(1, b"\1" * (4 * MIB + 1)))), MANY),
        (field(1, feature(b"n", INTS, b"\x08\1" * MIB)), MANY),
        (field(1, feature(b"n", FLOATS, field(1, bytes(16 * MIB + 16)))), MANY),
        (field(1, feature(b"n", TEXTS, field(1, b"") * MIB)), MANY),
        (field(1, field(1, b"") * MIB), MANY),
        (b"\x78\0" * (MIB + 1), MANY),
        (field(1, feature(b"n" * 70_000, INTS, b"")), "the name of a feature has 70000 bytes"),
    ],
)
def test_a_record_of_very_many_parts_is_no_row(example, message):
    with pytest.raises(ValueError, match=message):
        parse_example(example, 0, len(example))


def test_as_many_parts_as_there_may_be():
    count = 1280 * 1024  # A map of depth, or a mask, stored as numbers.
    for kind, size in ((INTS, 1), (FLOATS, 4)):
        numbers = field(1, feature(b"n", kind, field(1, b"\1" * (count * size))))
        assert len(parse_example(numbers, 0, len(numbers))["n"].values) == count
    with pytest.raises(ValueError, match=MANY):
        Parts(2).take(3)


def test_zeros_are_no_tensor():
    zeros = bytes(2**24)
    assert find_tensor(zeros, 0, len(zeros)) is None  # Which takes a second if all are looked at.
    known = b"\x08\x04" + field(2, field(2, b"\x08\2") * 2) + field(4, bytes(4))
    assert find_tensor(known, 0, len(known)).pixels.shape == (2, 2)
    unknown = b"\x78\0" * 64 + known
    assert find_tensor(unknown, 0, len(unknown)) is None


def read(path):
    return list(read_examples(str(path), {}))


def test_large_texts_and_what_is_beside_an_image(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord_rows, "_MOST_TEXT_BYTES", 1000)
    monkeypatch.setattr(tfrecord_rows, "_MOST_BESIDE_BYTES", 5000)
    example = field(1, IMAGE + feature(b"t", TEXTS, field(1, b"a" * 1000)))
    large = field(1, IMAGE + feature(b"t", TEXTS, field(1, b"a" * 1001)))
    beside = field(1, IMAGE + feature(b"t", TEXTS, field(1, b"a" * 6000)))
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(frame, (example, large, beside))))
    good, second, third = read(tmp_path / "a.tfrecord")
    assert list(good.cells["t"]) == ["a" * 1000]
    assert isinstance(good.cells["image"], EmbeddedImage)
    assert "its 1001 bytes are neither text nor" in second.cells["t"].why
    assert isinstance(second.cells["image"], EmbeddedImage)
    assert isinstance(third.cells["image"], Unusable)
    assert "bytes beside it, more than" in third.cells["image"].why


@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_large_records_are_not_read_as_a_whole(tmp_path, packing, monkeypatch):
    """What of them is not looked at stays where it is, packed or not."""
    noise = np.random.default_rng(0).bytes(3 * MIB)
    examples = [field(1, IMAGE + feature(b"z", TEXTS, field(1, noise))) for _ in range(2)]
    data = b"".join(map(frame, examples)) + frame(field(1, IMAGE))
    data = data if packing == "plain" else gzip.compress(data, 1)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data)
    lengths, are_whole = [], []
    for each in tfrecord_frames.list_frames(str(path)):
        assert tfrecord_frames.check_data(each)
        lengths.append(each.length)
        are_whole.append(isinstance(each.buffer, bytes))
    assert lengths == [*map(len, examples), len(field(1, IMAGE))]
    assert are_whole == [False, False, True]
    for row in read(path):
        held = row.cells["image"]
        ref = ImageRef("x", held.size_bytes, held.modified_ns, location=held.location)
        assert read_location(ref, 2**30) == JPEG
    if packing == "gzip":
        unpacked = gzip.decompress(data)
        path.write_bytes(gzip.compress(unpacked[: -len(frame(field(1, IMAGE))) - 9], 1))
        assert [row.problem is None for row in read(path)] == [True, False]


def test_a_length_that_no_record_has(tmp_path):
    length = struct.pack("<Q", 2**62)
    (tmp_path / "a.tfrecord").write_bytes(
        length + masked_crc(length) + bytes(99) + frame(field(1, IMAGE))
    )
    first, second = read(tmp_path / "a.tfrecord")
    assert first.problem == "it has 4611686018427387904 bytes, more than a tf.Example can have"
    assert isinstance(second.cells["image"], EmbeddedImage)


@pytest.mark.whole
@pytest.mark.parametrize("before", [b"", b"\1", b"\0", b"\0\0\0\0\0\1" * 3])
@pytest.mark.parametrize("zeros", [0, 1, 11, 12, 13, 4096, MIB - 20, MIB - 1, MIB])
def test_the_next_header_is_found_behind_zeros(tmp_path, before, zeros):
    good = frame(field(1, IMAGE))
    (tmp_path / "a.tfrecord").write_bytes(b"\7" * 12 + before + bytes(zeros) + good)
    *bad, found = tfrecord_frames.list_frames(str(tmp_path / "a.tfrecord"))
    assert len(bad) == 1
    assert found.start == 12 + len(before) + zeros + 12


def test_zeros_are_not_taken_for_headers_one_by_one(tmp_path, monkeypatch):
    asked = []
    known = tfrecord_frames.read_length
    monkeypatch.setattr(tfrecord_frames, "read_length", lambda h: asked.append(h) or known(h))
    (tmp_path / "a.tfrecord").write_bytes(bytes(MIB))
    (row,) = read(tmp_path / "a.tfrecord")
    assert row.problem is not None
    assert len(asked) < 9


def test_a_parquet_file_of_more_rows_than_bytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "FREE_ROWS", 10_000)
    for count, is_bad in ((10_000, False), (10_001, True)):
        image = pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int32()).fill_null(0), [JPEG])
        for ending, write in ((".parquet", pq.write_table), (".arrow", write_arrow)):
            path = tmp_path / f"a{ending}"
            write(pa.table({"image": image.cast(pa.binary())}), path)
            read_all = read_parquet if ending == ".parquet" else read_arrow
            if is_bad and ending == ".parquet":  # Arrow's file has the image in each row.
                with pytest.raises(UserError, match=r"10,001 rows, in [\d,]+ bytes"):
                    list(read_all(str(path), {}))
            else:
                assert len(list(read_all(str(path), {}))) == count


@pytest.mark.parametrize("lying", ["image", "label"])
def test_sizes_that_lie_do_not_end_the_process(tmp_path, lying):
    path = tmp_path / "a.parquet"
    table = pa.table({"label": ["a", "b", "a"], "image": pa.array([JPEG] * 3, pa.binary())})
    pq.write_table(table, path, row_group_size=2)
    # The column has two levels by its sizes' histogram, and one if no cell may be empty.
    optional, name = b"\x25\x02\x18", bytes([len(lying)]) + lying.encode()
    damaged = path.read_bytes().replace(optional + name, b"\x25\x00\x18" + name)
    path.write_bytes(damaged)
    with pytest.raises(OSError, match="histogram size mismatch"):
        list(read_parquet(str(path), {}))


def write_arrow(table, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.whole
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE])
@pytest.mark.parametrize("is_first", [True, False])
def test_attributes_of_a_tar_file_are_not_read_without_end(tmp_path, kind, is_first):
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = kind, 2**20 + 1
    long_bytes = long.tobuf() + bytes(2**20 + 512)
    member = tarfile.TarInfo("a.jpg")
    member.size = len(JPEG)
    member_bytes = member.tobuf() + JPEG.ljust(-(-len(JPEG) // 512) * 512, b"\0")
    parts = [long_bytes, member_bytes] if is_first else [member_bytes, long_bytes, member_bytes]
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(b"".join(parts) + bytes(1024))
    refs = list(list_members(str(tmp_path / "a.tar.gz"), 1))
    damaged = [ref for ref in refs if ref.problem is not None]
    assert [ref.path for ref in refs if ref.problem is None] == ["a.jpg"] * (len(parts) - 1)
    at = 0 if is_first else len(member_bytes)
    assert [ref.path for ref in damaged] == [f"a.tar.gz#byte-{at}"]


def _header(kind: bytes, size: int, name: str = "a/x.jpg") -> bytes:
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" + size.to_bytes(11, signed=True) if size < 0 else b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _member(name: str) -> bytes:
    return _header(b"0", 4, name) + b"text".ljust(512, b"\0")


def _attributes(line: str) -> bytes:
    text = f"{len(line) + 4:2d} {line}\n".encode()
    return _header(b"x", len(text)) + text.ljust(512, b"\0")


LONG_NAME = _header(b"L", 11) + b"a/long.jpg".ljust(512, b"\0")
LIES = {
    "a sparse file that leads back": _header(b"S", -512),
    "a long name that leads back": _header(b"L", -1024),
    "attributes that lead back": _header(b"x", -5000),
    "a file that leads back": _header(b"7", -(10**9)),
    "long names of long names": LONG_NAME * 5000,
    "attributes of attributes": _header(b"x", 0) * 5000,
    "attributes of all, again and again": _header(b"g", 0) * 5000,
    "a size that is none": _attributes("GNU.sparse.size=x"),
    "a map that is none": _attributes("GNU.sparse.map=0,x"),
    "a long name of a gigabyte": _header(b"L", 2**30),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_the_members_around_a_header_that_lies_are_read(tmp_path, lie):
    path = tmp_path / "t.tar"
    path.write_bytes(_member("a/1.jpg") + lie + _member("a/2.jpg") + bytes(1024))
    refs = list(list_members(str(path), 0))
    assert [ref.problem for ref in refs if "#byte-" in ref.path] == ["corrupt"]
    last = "a/long.jpg" if lie.startswith(LONG_NAME) else "a/2.jpg"
    assert [ref.path for ref in refs if ref.problem is None] == ["a/1.jpg", last]


def test_headers_take_no_more_memory_than_names_do(tmp_path):
    path = tmp_path / "t.tar"
    with path.open("wb") as file:
        file.write(_member("a/1.jpg") + _header(b"L", 2**26))
        file.truncate(2**26)
    tracemalloc.start()
    try:
        assert [ref.path for ref in list_members(str(path), 0)][:1] == ["a/1.jpg"]
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_long_names_and_attributes_are_read_as_ever(tmp_path):
    names = ["a/" + "n" * 5000 + ".jpg", "a/\u00e9.jpg", "a/1.jpg"]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "t.tar", "w", format=form) as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size, info.pax_headers = 4, {"SCHILY.xattr.user.x": "x" * 100_000}
                archive.addfile(info, io.BytesIO(b"text"))
        refs = list(list_members(str(tmp_path / "t.tar"), 0))
        assert [(ref.path, ref.problem) for ref in refs] == [(name, None) for name in names]


def test_a_zip_member_may_have_no_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a/1.jpg", b"x")
        archive.writestr(zipfile.ZipInfo(""), b"y")
    assert [ref.path for ref in list_members(str(tmp_path / "t.zip"), 0)] == ["a/1.jpg", "."]
