"""Rows of TFRecords: cells, images that stay where they are, and what is damaged, by its number."""

import gzip
import itertools
import os
import zlib

import numpy as np
import pytest

from image_pipeline.components.dataset import tfrecord
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.rows import EmbeddedImage
from image_pipeline.components.sources.source_kinds import read_rows
from tests.data_set_files import PACKINGS, encode_example, write_tfrecord
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

COUNT = 40
IMAGES = [encode_png(draw(number)) for number in range(COUNT)]


def _example(number, **changes):
    features = {"image/encoded": IMAGES[number], "label": f"c{number % 3}".encode(), "n": number}
    return features | {"image/filename": f"{number:02d}.png".encode()} | changes


def _open(path, **options):
    options = complete_options(str(path), IngestOptions(**options))
    return open_source(str(path), options), options


def _read(path, **options):
    """The bytes or the problem of each reference, by what it is called."""
    source, _ = _open(path, **options)
    found = {}
    for ref in source.list():
        try:
            found[ref.path] = ref.message if ref.problem else source.read(ref, 10**9)
        except (BadImage, OSError) as error:
            found[ref.path] = error
    return found


EXPECTED = {f"{number:02d}.png": data for number, data in enumerate(IMAGES)}


@pytest.mark.parametrize("ending", PACKINGS)
def test_images_are_read_from_where_they_are(tmp_path, ending):
    path = tmp_path / f"a.tfrecord{ending}"
    write_tfrecord(path, map(_example, range(COUNT)))
    source, options = _open(path)
    refs = list(source.list())
    assert {ref.path: source.read(ref, 10**9) for ref in refs} == EXPECTED
    assert {source.read(ref, 4) for ref in refs} == {b"\x89PNG"}
    assert [ref.annotations.label for ref in refs[:4]] == ["c0", "c1", "c2", "c0"]
    assert [ref.annotations.further for ref in refs[:3]] == [(0,), (1,), (2,)]
    assert options.column_types == {"n": "int"}
    assert options.columns == {
        **{"image": "image/encoded", "path": "image/filename", "label": "label", "n": "n"}
    }


@pytest.mark.parametrize("size", [100, 50_000])
def test_what_lies_around_an_image_is_found_whatever_its_size(tmp_path, size):
    """A small record is read whole; of a large one, only what is not an image."""
    data = IMAGES[0] + os.urandom(size)
    write_tfrecord(tmp_path / "a.tfrecord", [{"a": 1, "image": data, "z": 2}] * 3)
    (row, *_) = read_rows(str(tmp_path / "a.tfrecord"))
    assert (row.cells["a"], row.cells["z"]) == ([1], [2])
    assert list(_read(tmp_path / "a.tfrecord").values()) == [data] * 3


def test_names_without_an_ending_are_told_by_a_prefix(tmp_path):
    write_tfrecord(tmp_path / "train-00000-of-00002", map(_example, range(3)))
    write_tfrecord(tmp_path / "train-00001-of-00002", map(_example, range(3, 5)))
    found = _read(f"tfrecord:{tmp_path}/train-*")
    assert found == dict(itertools.islice(EXPECTED.items(), 5))
    (ref, *_) = _open(f"tfrecord:{tmp_path}/train-*")[0].list()
    assert ref.annotations.row == "train-00000-of-00002:1"


@pytest.mark.parametrize("name", ["data_tfrecord-00000-of-00001.gz", "part-0"])
def test_a_folder_of_splits_is_given_by_its_prefix(tmp_path, name):
    folder = tmp_path / "examples [1]"
    for split, numbers in (("train", range(3)), ("holdout", range(3, 5))):
        (folder / f"Split-{split}").mkdir(parents=True)
        write_tfrecord(folder / f"Split-{split}" / name, map(_example, numbers))
    source, _ = _open(f"tfrecord:{folder}", splits={"train": 0.5, "holdout": 0.5})
    refs = list(source.list())
    assert {ref.path: source.read(ref, 10**9) for ref in refs} == dict(
        itertools.islice(EXPECTED.items(), 5)
    )
    assert [ref.annotations.split for ref in refs] == ["holdout"] * 2 + ["train"] * 3


def test_a_feature_is_a_list_if_any_record_has_several_values(tmp_path):
    examples = [_example(0, w=[1, 2]), _example(1, w=3), _example(2, w=[]), _example(3, w=4)]
    write_tfrecord(tmp_path / "a.tfrecord", examples)
    source, options = _open(tmp_path / "a.tfrecord")
    assert options.column_types == {"n": "int", "w": "ints"}
    assert [ref.annotations.further[1] for ref in source.list()] == [[1, 2], [3], [], [4]]


def test_text_of_digits_stays_text(tmp_path):
    write_tfrecord(tmp_path / "a.tfrecord", [_example(n, code=b"%d" % n) for n in range(3)])
    assert _open(tmp_path / "a.tfrecord")[1].column_types["code"] == "string"


@pytest.mark.parametrize(
    "sides", [("image/height", "image/width", "image/channels"), ("height", "width", "depth")]
)
def test_pixels_are_passed_on_as_npy(tmp_path, sides):
    pixels = draw(0)
    shape = dict(zip(sides, pixels.shape, strict=True))
    write_tfrecord(tmp_path / "a.tfrecord", [{"image_raw": pixels.tobytes(), **shape}])
    (data,) = _read(tmp_path / "a.tfrecord", columns={"image": "image_raw"}).values()
    (tmp_path / "x.npy").write_bytes(data)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), pixels)


def test_boxes_are_one_column(tmp_path):
    box = {
        f"image/object/bbox/{s}": [v]
        for s, v in (("xmin", 0.25), ("xmax", 0.5), ("ymin", 0.0), ("ymax", 1.0))
    }
    named = {"image/object/class/text": [b"dog"], "image/object/class/label": [2]}
    write_tfrecord(tmp_path / "a.tfrecord", [_example(0, **box, **named), _example(1)])
    source, options = _open(tmp_path / "a.tfrecord")
    assert (options.boxes.format, options.boxes.classes) == ("rel_xyxy", ("dog",))
    boxes = [ref.annotations.further[-1][1] for ref in source.list()]
    assert [[(*b.numbers, b.name) for b in each] for each in boxes] == [
        [(0.25, 0.0, 0.5, 1.0, "dog")],
        [],
    ]


SIDES = [f"image/object/bbox/{side}" for side in ("xmin", "xmax", "ymin", "ymax")]


@pytest.mark.parametrize(
    ("named", "classes"), [({"image/object/bbox/label": [7, 3]}, ("3", "7")), ({}, ("object",))]
)
def test_classes_of_boxes_may_be_elsewhere_or_nowhere(tmp_path, named, classes):
    box = dict(zip(SIDES, ([0.25, 0.0], [0.5, 1.0], [0.0, 0.5], [1.0, 0.75]), strict=True))
    write_tfrecord(tmp_path / "a.tfrecord", [_example(0, **box, **named)])
    source, options = _open(tmp_path / "a.tfrecord")
    assert options.boxes.classes == classes and set(options.column_types) == {"n", "boxes"}
    (ref,) = source.list()
    first, second = dict(zip(options.column_types, ref.annotations.further, strict=True))["boxes"][
        1
    ]
    assert (first.numbers, second.numbers) == ((0.25, 0.0, 0.5, 1.0), (0.0, 0.5, 1.0, 0.75))


def test_boxes_that_no_record_has_are_no_column(tmp_path):
    """The Model Garden's ImageNet has the features in all records, boxes only in some sets."""
    write_tfrecord(tmp_path / "a.tfrecord", [_example(n, **{s: [] for s in SIDES}) for n in (0, 1)])
    _, options = _open(tmp_path / "a.tfrecord")
    assert options.column_types == {"n": "int"} and options.boxes is None
    with pytest.raises(UserError, match="No row of the table has a box that can be read"):
        _open(tmp_path / "a.tfrecord", columns={"boxes": "image/object/bbox"})


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
def test_a_damaged_record_is_named_and_the_rest_goes_on(tmp_path, pack):
    path = tmp_path / "a.tfrecord"
    starts = write_tfrecord(path, map(_example, range(COUNT)))
    data = bytearray(path.read_bytes())
    data[starts[20] + 200] ^= 1  # in the image
    data[starts[25]] ^= 1  # in the length
    data[starts[39] - 1] ^= 1  # in the checksum of the one before
    path.write_bytes(pack(bytes(data)))
    found = _read(path)
    bad = {"20.png", "38.png"}
    assert {n: d for n, d in found.items() if n in EXPECTED and n not in bad} == {
        n: d for n, d in EXPECTED.items() if n not in bad | {"25.png"}
    }
    for name in bad:
        assert "its record's data or checksum" in found[name].message
    assert found["a.tfrecord:26"] == (
        "a.tfrecord:26: its length field or that field's checksum is damaged"
    )
    assert "25.png" not in found


@pytest.mark.whole
@pytest.mark.parametrize("ending", PACKINGS)
@pytest.mark.parametrize("share", [0.31, 0.61, 0.99])
def test_a_cut_file_names_its_end(tmp_path, ending, share):
    path = tmp_path / f"a.tfrecord{ending}"
    write_tfrecord(path, map(_example, range(COUNT)))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    found = _read(path)
    good = {name: data for name, data in found.items() if data == EXPECTED.get(name)}
    (end,) = set(found) - set(EXPECTED)
    assert 0 < len(good) < COUNT and set(good) == set(list(EXPECTED)[: len(good)])
    number = int(end.partition(":")[2])
    assert len(good) < number <= COUNT and (
        "ends within" in found[end] or "what follows" in found[end]
    )


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_damage_in_a_packed_file_spoils_no_other_image(tmp_path, pack):
    packed = bytearray(
        pack(b"".join(tfrecord.frame(encode_example(_example(n))) for n in range(COUNT)))
    )
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "a.tfrecord").write_bytes(packed)
    found = _read(tmp_path / "a.tfrecord")
    read = {name: data for name, data in found.items() if isinstance(data, bytes)}
    assert 0 < len(read) < COUNT and read == {name: EXPECTED[name] for name in read}
    assert len(found) > len(read)


def test_a_record_that_is_no_example_is_named(tmp_path):
    records = [_example(0), b"\xff\xff", _example(1), {"other": b"x"}]
    write_tfrecord(tmp_path / "a.tfrecord", records)
    found = _read(tmp_path / "a.tfrecord")
    assert "it is not a tf.Example (a number is cut off)" in found["a.tfrecord:2"]
    assert found["a.tfrecord:4"] == "a.tfrecord:4: the column 'image/encoded' is empty"
    assert found["01.png"] == IMAGES[1]


def test_damage_makes_up_no_column(tmp_path):
    starts = write_tfrecord(tmp_path / "a.tfrecord", map(_example, range(COUNT)))
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[data.index(b"label", starts[30])] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    source, options = _open(tmp_path / "a.tfrecord")
    assert options.column_types == {"n": "int"}
    (bad,) = [ref for ref in source.list() if ref.problem]
    assert bad.message == "a.tfrecord:31: its data or the data's checksum is damaged"


def test_a_broken_image_is_still_the_image(tmp_path):
    """What a column is does not depend on one cell."""
    write_tfrecord(tmp_path / "a.tfrecord", [{"x": b"junk" * 20}, {"x": IMAGES[0]}])
    rows = list(read_rows(str(tmp_path / "a.tfrecord")))
    assert all(isinstance(row.cells["x"], EmbeddedImage) for row in rows)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "has no row that can be read"),
        ([{"label": b"cat"}], "No column .* looks like an image path"),
    ],
)
def test_files_without_images_are_refused(tmp_path, records, message):
    write_tfrecord(tmp_path / "a.tfrecord", records)
    with pytest.raises(UserError, match=message):
        _open(tmp_path / "a.tfrecord")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"no record at all, but a text " * 99)
    with pytest.raises(UserError, match=r"no row that can be read .*:1: its length field"):
        _open(tmp_path / "a.tfrecord")
    with pytest.raises(UserError, match="does not exist; give one that exists"):
        _open(tmp_path / "b.tfrecord")


def test_equal_names_are_several_images(tmp_path):
    examples = [_example(n, **{"image/filename": b"same.png"}) for n in range(3)] + [_example(3)]
    write_tfrecord(tmp_path / "a.tfrecord", examples)
    assert _read(tmp_path / "a.tfrecord") == {
        **{f"a.tfrecord/{n + 1:08d}": IMAGES[n] for n in range(3)},
        "03.png": IMAGES[3],
    }
